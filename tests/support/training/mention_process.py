"""Two processes that share a step of SMedBERT; started by tests of it.

Both build the same weights and rows; the second process takes the rows without mentions.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from models.objectives import build
from tests.support.processes.two_workers import work_as_members
from tests.support.training.mention_rows import SMEDBERT_TINY, mention_rows

ROWS, SHARES = 8, ([7, 0, 2, 5, 3], [1, 4, 6])


def objective_and_rows(folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    """Return the same weights and rows for every process; dropout is on."""
    torch.manual_seed(0)
    objective = build("smedbert", SMEDBERT_TINY | {"mention_probability": 0.4})
    objective.attach("knowledge", folder)
    rows = mention_rows(ROWS)
    for index in SHARES[1]:
        rows[index]["mentions"] = np.empty((0, 4), dtype=np.int64)
    return objective, rows


def work(rank: int, folder: str) -> dict[str, Any]:
    """Take the step with the knowledge of a folder; returns losses and gradients."""
    objective, rows = objective_and_rows(Path(folder))
    batch = objective.collate([rows[i] for i in SHARES[rank]], seed=5, step=7, row_indices=SHARES[rank])
    model = DistributedDataParallel(objective)  # must outlive the backward pass, which it averages
    values = model(batch)
    values["loss"].backward()
    gradients = {name: p.grad for name, p in objective.named_parameters()}
    return {"values": {name: value.item() for name, value in values.items()}, "gradients": gradients}


if __name__ == "__main__":
    work_as_members(work)
