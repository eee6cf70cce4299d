"""Batches of the steps still to do: which task each step does, the rows it reads, and this worker's share of them.

The task of a step is a function of (seed, step), and the rows of a task follow from its own place in its own stream. So
the batches of all tasks are the same for any number of workers, and a run resumes in the middle of each stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from models.training.columns import Spans
from models.training.config import TrainingConfig
from models.training.global_batch import read_global_batch, share_out
from models.training.reader import ExampleStream
from models.training.worker import Worker


class Shared(NamedTuple):
    """One worker's share of a global batch."""

    micro_batches: list[Any]
    cut: bool
    """True if any worker's share is cut into several micro-batches: then every worker treats its share as cut."""

    @classmethod
    def of(
        cls,
        objective: Any,
        task: str,
        rows: Sequence[Any],
        config: TrainingConfig,
        worker: Worker,
        *,
        seed: int,
        step: int,
        equally_many: bool = False,
    ) -> Shared:
        """Share out the rows of a task's batch, and mask and pack those of this worker.

        Raises:
            ValueError: the rows cannot be shared among the workers; the message names the setting.
        """
        lengths = [len(row.input_ids) for row in rows]
        shares = share_out(lengths, worker.world_size, config.micro_batch_size, equally_many=equally_many)
        if config.parallel == "fsdp2" and len({len(share) for share in shares}) > 1:
            raise ValueError(
                f"{len(rows)} rows in micro-batches of {config.micro_batch_size} give {worker.world_size} workers "
                "unequal numbers of them, which fsdp2 cannot share; make training.batch_size a multiple of the "
                "workers, or raise training.micro_batch_size"
            )
        # An objective with one task need not know of tasks.
        named = {"task": task} if len(objective.tasks) > 1 else {}
        micro_batches = [
            objective.collate([rows[index] for index in share], seed=seed, step=step, row_indices=share, **named)
            for share in shares[worker.rank]
        ]
        return cls(micro_batches, max(len(share) for share in shares) > 1)


class StepBatch(NamedTuple):
    """Everything that the background prepares for a step."""

    task: str
    shared: Shared
    next_position: int
    """Sample of the task's stream at which its next batch begins."""
    dropped_spans: int | None = None
    """Mentions of the global batch that were dropped because their rows were cut; None for rows without mentions."""


def step_batches(
    objective: Any,
    streams: Mapping[str, ExampleStream],
    config: TrainingConfig,
    worker: Worker,
    *,
    first_step: int,
    positions: Mapping[str, int],
) -> Iterator[StepBatch]:
    """Yield the batches of all steps from `first_step` on, masked and packed, on the CPU.

    `positions` are the samples of the tasks' streams at which their next batches begin; 0 for a task without one.
    """
    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # of the background thread, which would pin memory for the first GPU
    reached = dict(positions)
    for step in range(first_step, config.steps):
        task = objective.task(step, config.seed)
        settings = config.batch_of(task)
        batch = read_global_batch(
            streams[task],
            reached.get(task, 0),
            size=settings.batch_size,
            tokens=settings.batch_tokens,
            longest=config.longest_row(step, task),
        )
        reached[task] = batch.next_position
        shared = Shared.of(objective, task, batch.rows, config, worker, seed=config.seed, step=step)
        if worker.device.type == "cuda":
            shared = shared._replace(micro_batches=[one.pin_memory() for one in shared.micro_batches])
        has_spans = any(isinstance(column, Spans) for column in streams[task].columns)
        yield StepBatch(task, shared, batch.next_position, batch.dropped_spans if has_spans else None)
