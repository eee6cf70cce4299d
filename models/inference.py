"""Predictions for many examples: sorted by length, unpadded, without gradients.

Examples are processed in chunks. Within a chunk, examples of similar length share a batch of at most `batch_tokens`
tokens, since on a CPU attention is one product per run of equal lengths (models/encoder/layout.py). Memory is bounded
by the chunk's examples and one batch, whatever the length of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from infra.errors import UserError
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel

CHUNK_EXAMPLES = 4096
"""Number of examples that are sorted together."""
BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Tokens in a batch if the caller gives no number."""


def device_of(name: str | None, default: str | None = None) -> str:
    """Return the device to compute on: the named one, else the default, else a GPU if there is one.

    Raises:
        UserError: cuda was named, and there is no GPU that torch can use.
    """
    has_gpu = torch.cuda.is_available()
    if name is not None and name.startswith("cuda") and not has_gpu:
        raise UserError(
            f"device={name}: torch {torch.__version__} finds no GPU on this machine. Use cpu, or leave the device out."
        )
    return name or default or ("cuda" if has_gpu else "cpu")


Progress = Callable[[int], None]
"""Callback that takes the number of examples done so far, after every batch."""


def predict(
    model: TaskModel,
    examples: Iterable[HeadExample],
    *,
    batch_tokens: int | None = None,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> list[Any]:
    """Return one prediction per example, in their order and in the form of models/heads/examples.py.

    Arguments and errors are those of `predict_stream`.
    """
    return list(predict_stream(model, examples, batch_tokens=batch_tokens, precision=precision, progress=progress))


def predict_stream(
    model: TaskModel,
    examples: Iterable[HeadExample],
    *,
    batch_tokens: int | None = None,
    chunk_examples: int = CHUNK_EXAMPLES,
    precision: str = "fp32",
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Yield predictions in the examples' order, a chunk at a time, on the model's device.

    Args:
        model: any of `models.heads`.
        examples: a sequence or any iterator; targets are ignored.
        batch_tokens: maximum number of tokens in a batch, though a batch holds at least one example. None: 4,096 on a
            CPU, 65,536 on a GPU.
        chunk_examples: number of examples in memory, which are sorted together.
        precision: `fp32`, or `bf16` for matrix products in bfloat16 (torch's autocast).
        progress: called after every batch with the number of examples done so far.

    Raises:
        ValueError: the model cannot read an example (named by its number), the precision is unknown, or a number is
            less than 1.
    """
    device = next(model.parameters()).device
    tokens = BATCH_TOKENS.get(device.type, BATCH_TOKENS["cpu"]) if batch_tokens is None else batch_tokens
    if tokens < 1 or chunk_examples < 1:
        raise ValueError(f"batch_tokens ({tokens}) and chunk_examples ({chunk_examples}) must be at least 1")
    context = autocast(device, precision)
    source, done = iter(examples), 0
    while chunk := [HeadExample(example.sequences) for example in islice(source, chunk_examples)]:
        model.check(chunk, first=done)
        predictions: list[Any] = [None] * len(chunk)
        for numbers in batches_by_length(chunk, tokens):
            batch = model.collate([chunk[number] for number in numbers]).to(device)
            with context:
                for number, prediction in zip(numbers, model.predict(batch), strict=True):
                    predictions[number] = prediction
            done += len(numbers)
            if progress is not None:
                progress(done)
        yield from predictions


def batches_by_length(examples: Sequence[HeadExample], batch_tokens: int) -> Iterator[list[int]]:
    """Yield numbers of examples in batches of similar length, the longest first.

    So a batch that does not fit in memory fails at once, not after hours.
    """
    sizes = [sum(len(sequence.input_ids) for sequence in example.sequences) for example in examples]
    batch: list[int] = []
    tokens = 0
    for number in sorted(range(len(examples)), key=lambda number: -sizes[number]):
        if batch and tokens + sizes[number] > batch_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(number)
        tokens += sizes[number]
    if batch:
        yield batch


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return torch's autocast for a precision. Raises ValueError unless it is `fp32` or `bf16`."""
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision must be fp32 or bf16, got {precision!r}")
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
