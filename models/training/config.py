"""What a training run is told: how long, how fast, how large, how often."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from models.training.field_types import check_types

PRECISIONS = ("fp32", "bf16")
PARALLEL = ("ddp", "fsdp2")
SPEED_ONLY = frozenset({"micro_batch_size", "parallel", "prefetch_batches"})
"""Settings that change speed and memory, and results by rounding at most: a run may go on with others."""
LARGEST_SEED = 2**63
"""Seeds are below it: hashes and generators take 64 bits."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast and how often; eHealth Table 7 where a field names no other source.

    Raises ValueError naming the field and what it must be.
    """

    steps: int
    """Optimiser steps in all."""
    batch_size: int | None = None
    """Sequences in the global batch, over all workers and micro-batches."""
    batch_tokens: int | None = None
    """In place of `batch_size`: tokens in the global batch, each row counted once. A batch is the longest run of rows
    that holds no more, so the number of sequences varies and the work of a step hardly does.
    """
    micro_batch_size: int | None = None
    """Sequences that a worker computes at once at most; a worker's share of the global batch is cut into micro-batches
    whose gradients add up. None: as many as fit a GPU by the formula of models/training/memory.py; on a CPU it is not
    cut.
    """
    learning_rate: float
    """Peak of the schedule."""
    warmup_steps: int
    """Steps of linear warm-up; the rate then falls linearly to 0."""
    length_warmup_steps: int = 0
    """First steps in which rows are cut to `length_warmup_tokens`, at the end of a word; what is cut off is not seen in
    those steps. 0: none (Li et al., "The stability-efficiency dilemma", NeurIPS 2022).
    """
    length_warmup_tokens: int = 128
    adam_epsilon: float = 1e-6
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    """Largest norm of the gradient (ELECTRA)."""
    precision: str = "fp32"
    """fp32, or bf16: autocast, with weights, optimiser, softmax, losses and sampling in float32."""
    parallel: str = "ddp"
    """How several workers share the model: ddp (each holds all of it) or fsdp2 (weights, gradients and optimiser state
    sharded, layer by layer).
    """
    deterministic: bool | None = None
    """Whether only kernels are used that give the same bits every time (torch.use_deterministic_algorithms; on a GPU
    with CUBLAS_WORKSPACE_CONFIG, and slower). An operation that has none ends the run. None: on a CPU, where it costs
    nothing, and not on a GPU. Same bits on a GPU also need the same kind of GPU, number of workers and micro-batches.
    """
    spike_factor: float | None = None
    """A step whose loss is over this multiple of the median of the last 100 losses is skipped. None: only one whose
    loss or gradient is not finite.
    """
    max_skipped: int = 10
    """Steps among the last 100 that may be skipped; one more ends the run."""
    prefetch_batches: int = 4
    """Batches that are masked and packed ahead, in the background."""
    seed: int = 42
    log_every: int = 10
    """Steps between two entries of the curves, which hold the means of the steps since the last one; every step's own
    figures are kept beside them.
    """
    evaluate_every: int = 200
    """Steps between two evaluations on held-out text; the last step is always evaluated."""
    held_out_batches: int = 4
    """Batches of held-out text an evaluation looks at."""
    checkpoint_every: int = 200
    """Steps between two checkpoints; the last step is always saved."""

    def __post_init__(self) -> None:
        check_types(self, "training.")
        self._check_batch()
        for name in (
            "steps",
            "prefetch_batches",
            "log_every",
            "evaluate_every",
            "held_out_batches",
            "checkpoint_every",
        ):
            _at_least(self, name, 1)
        for name in ("max_skipped", "length_warmup_steps", "weight_decay", "seed"):
            _at_least(self, name, 0)
        _at_least(self, "length_warmup_tokens", 3)  # [CLS], a token and [SEP]
        if self.seed >= LARGEST_SEED:
            raise ValueError(f"training.seed is {self.seed}; it must be under 2 to the power of 63")
        for name in ("learning_rate", "adam_epsilon", "clip_norm"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be over 0")
        for name in ("adam_beta1", "adam_beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be at least 0 and under 1")
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"training.warmup_steps ({self.warmup_steps}) must be at least 0 and under training.steps "
                f"({self.steps}); otherwise the learning rate never reaches its peak"
            )
        if self.spike_factor is not None and not self.spike_factor > 1.0:
            raise ValueError(f"training.spike_factor is {self.spike_factor}; it must be over 1, or left out")
        for name, known in (("precision", PRECISIONS), ("parallel", PARALLEL)):
            if getattr(self, name) not in known:
                raise ValueError(f"training.{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")

    def _check_batch(self) -> None:
        if (self.batch_size is None) == (self.batch_tokens is None):
            raise ValueError("training needs either batch_size (sequences) or batch_tokens (tokens), not both")
        for name in ("batch_size", "batch_tokens", "micro_batch_size"):
            if getattr(self, name) is not None:
                _at_least(self, name, 1)

    def longest_row(self, step: int) -> int | None:
        """Tokens to which the rows of `step` (counted from 0) are cut; None: they are not."""
        return self.length_warmup_tokens if step < self.length_warmup_steps else None


def training_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """The configuration from a mapping, as presets hold it.

    Raises:
        ValueError: an unknown key (naming near ones), a missing key or an impossible value.
    """
    check_training_keys(settings)
    missing = [one.name for one in fields(TrainingConfig) if one.default is MISSING and one.name not in settings]
    if missing:
        raise ValueError(f"training needs {', '.join(missing)}")
    return TrainingConfig(**settings)


def check_training_keys(settings: Iterable[str]) -> None:
    """Raise ValueError for an unknown key, naming near ones."""
    known = [one.name for one in fields(TrainingConfig)]
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} in training; did you mean {', '.join(near)}?")


def _at_least(config: TrainingConfig, name: str, least: int) -> None:
    if getattr(config, name) < least:
        raise ValueError(f"training.{name} is {getattr(config, name)}; it must be at least {least}")
