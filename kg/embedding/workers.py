"""Place of a process among those that train one embedding together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


def _alone(values: Tensor) -> None:
    """Do nothing: the sum of a single worker is the total."""


@dataclass(frozen=True)
class Workers:
    """Number of this process, number of all processes, and the function that adds up their tensors."""

    rank: int = 0
    size: int = 1
    add: Callable[[Tensor], None] = _alone
    """Adds a tensor over all workers, in place, with the same bits on all. Called by all, in the same order."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def add_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Return named figures, each added over all workers; all workers must have the same names."""
        values = torch.tensor(list(figures.values()), dtype=torch.float64).to(self.device)
        self.add(values)
        return dict(zip(figures, values.tolist(), strict=True))
