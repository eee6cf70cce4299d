"""Number of rows that fit a GPU: the micro-batch of a run whose settings leave it open.

The bytes that a layer keeps for its backward pass, per token, follow from what its operations save
(models/encoder/network.py), with b = 2 bytes for bfloat16 and 4 for float32:

    input b D, q k v 3 b D, mixed values and their copy 2 b D, second input b D, FFN before and after GELU 2 b F,
    two inputs of LayerNorm in float32 8 D, two dropout masks 2 D, statistics of attention and norms 4 H + 16
    = (7 b + 10) D + 2 b F + 4 H + 16                                                               (layer)

One more layer is counted for gradients in flight. With `checkpoint_activations` a layer keeps only its input, 4 D, and
one layer's worth exists at a time. Weights, gradients and both moments of AdamW take 16 bytes per parameter, copies in
bfloat16 2 more. Every row is assumed to be as long as the model allows, so the estimate errs on the safe side: real
rows are shorter. Cutting changes losses and gradients by rounding only (on a GPU also the dropout and samples drawn).

Shape legend: D hidden size, E embedding size, F FFN size, H heads, P rows of the word table.
"""

from __future__ import annotations

from typing import Any

import torch

from models.encoder.config import EncoderConfig
from models.encoder.network import count_parameters
from models.training.config import TrainingConfig

USABLE = 0.85
"""Share of a GPU's memory to plan with; the rest is for CUDA's context, NCCL and gaps between tensors."""


def encoder_bytes(config: EncoderConfig, precision: str) -> float:
    """Return the bytes per token that an encoder keeps for its backward pass, embeddings included; see the formula."""
    width, inner, b = config.hidden_size, config.intermediate_size, number_bytes(precision)
    layer = (7 * b + 10) * width + 2 * b * inner + 4 * config.num_heads + 16
    embeddings = (8 + 1 + b) * config.embedding_width  # the sum and its norm in float32, a mask, what is projected
    if config.checkpoint_activations:
        return config.num_layers * 4 * width + layer + embeddings
    return (config.num_layers + 1) * layer + embeddings


def number_bytes(precision: str) -> int:
    """Return the bytes of a product's factor under a `training.precision`."""
    return 2 if precision == "bf16" else 4


def state_bytes(parameters: int, precision: str, shards: int = 1) -> float:
    """Return the bytes of weights, gradients, moments and rounded copies; `shards`: number of workers under FSDP2."""
    copies = 2 if precision == "bf16" else 0
    return (16 / shards + copies) * parameters


def rows_that_fit(memory: float, state: float, per_row: float) -> int:
    """Return the rows whose activations fit in `memory` bytes beside `state`; at least 1, which may then fail."""
    return max(1, int((memory - state) // per_row))


def choose_micro_batch(objective: Any, config: TrainingConfig, workers: int, memory: float) -> int | None:
    """Return the `micro_batch_size` for workers with `memory` bytes each; `objective` must be whole, not sharded.

    None if a worker's share of every task's global batch fits uncut, which saves the second forward pass of a cut one.
    Of several tasks that do not fit, the one with the largest rows decides. The result depends on the arguments alone,
    so all workers choose alike.
    """
    shards = workers if config.parallel == "fsdp2" else 1
    state = state_bytes(count_parameters(objective), config.precision, shards) + objective.workspace_bytes()
    plain = objective.row_bytes(config.precision)

    def rows_of(task: str) -> int | None:
        """Return the rows of a task that fit, None if its whole share does."""
        batch, per_row = config.batch_of(task), objective.row_bytes_of(task, config.precision)
        rows = rows_that_fit(memory, state, per_row)
        if batch.batch_size is not None:
            # The worker with the most rows has the share rounded up.
            return None if -(-batch.batch_size // workers) <= rows else rows
        # A batch of 4,096 tokens may hold 400 pairs of 10, each with 24 values that its tokens do not count.
        if per_row > plain:
            return rows
        # Dealing rows out can give one worker up to a row more than its share of the tokens.
        share = (batch.batch_tokens or 0) / workers + objective.longest_row
        return None if state + per_row * share / objective.longest_row <= memory else rows

    return min((rows for task in objective.tasks if (rows := rows_of(task.name)) is not None), default=None)


def usable_memory(device: torch.device) -> float | None:
    """Return the bytes that a run may plan with on a GPU; None on a CPU, whose memory is shared with other programs.

    That is a share of its total memory, so that the plan is the same at every start, or the free memory if that is
    less.
    """
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return min(USABLE * total, float(free))
