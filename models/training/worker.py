"""Place of a training process among the others, and what it shares with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from models.distributed import global_sum


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Place of this process among the training processes."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


def add_over_ranks(figures: Mapping[str, float], worker: Worker) -> dict[str, float]:
    """Return named figures, each summed over all workers; every worker must have the same names."""
    values = torch.tensor(list(figures.values()), dtype=torch.float64, device=worker.device)
    return dict(zip(figures, global_sum(values).tolist(), strict=True))
