"""Texts for the log of a run: how the batch is cut, what MFU means, and what to do when memory is short."""

from __future__ import annotations

import torch

from models import objectives
from models.training.loop import TrainingConfig, Worker
from models.training.meter import MFU_FORMULA, peak_flops


def opening_notes(objective: str, config: TrainingConfig, worker: Worker) -> list[str]:
    """Return the first lines of a run's log: how the batch is cut, and the formula of its speed."""
    cut = config.micro_batch_size
    pieces = "each worker's share of the batch at once" if cut is None else f"micro-batches of at most {cut:,} rows"
    peak = peak_flops(worker.device, config.precision)
    known = (
        f"peak {peak:.3g} FLOP/s per worker"
        if peak
        else f"not recorded, because no peak is known for this device in {config.precision}"
    )
    return [
        f"training on {worker.world_size} x {worker.device.type} in {config.precision}, {pieces}",
        f"{MFU_FORMULA}; {known}",
        f"model FLOPs of a step = {objectives.flops_formula(objective)}",
    ]


def out_of_memory(
    given: TrainingConfig,
    used: TrainingConfig,
    worker: Worker,
    error: torch.OutOfMemoryError,
    cut_dependence: str | None = None,
) -> str:
    """Return the message about a GPU without enough memory: what was tried, and what to set instead.

    `cut_dependence` is the setting that makes the loss depend on how a batch is cut, if there is one.
    """
    rows = used.micro_batch_size
    if rows is None and used.batch_size is not None:
        rows = -(-used.batch_size // worker.world_size)
    tried = "a worker's share of the batch" if rows is None else f"{rows:,} rows"
    chosen = "as set" if given.micro_batch_size is not None else "chosen for its memory"
    if rows == 1:
        remedy = (
            "Set model.checkpoint_activations to true, or training.parallel to fsdp2 on several workers; the run "
            "resumes from its last checkpoint"
        )
    else:
        fewer = "a number of rows" if rows is None else f"fewer rows, such as {rows // 2}"
        stays = "Losses stay those of the whole batch, and the run resumes from its last checkpoint"
        if cut_dependence is not None:
            stays = f"With {cut_dependence} that is another loss, and the run starts anew"
        remedy = f"Set training.micro_batch_size to {fewer}. {stays}"
    detail = str(error).split(". ")[0]
    return (
        f"A GPU ran out of memory with {tried} at once (training.micro_batch_size, {chosen}). {remedy}. "
        f"torch says: {detail}."
    )
