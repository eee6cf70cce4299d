"""A process's place among those that train one embedding together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


def _alone(values: Tensor) -> None:
    """One worker's sum is the sum."""


@dataclass(frozen=True)
class Workers:
    """This process's number, how many there are, and how their tensors are added up."""

    rank: int = 0
    size: int = 1
    add: Callable[[Tensor], None] = _alone
    """Adds a tensor over all workers, in place, with the same bits on all. Called by all, in the same order."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def add_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Named figures, each added over all workers, which must all hold the same names."""
        values = torch.tensor(list(figures.values()), dtype=torch.float64).to(self.device)
        self.add(values)
        return dict(zip(figures, values.tolist(), strict=True))
