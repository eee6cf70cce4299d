"""Views of a whole sequence: the maximum, mean and weighted mean of its tokens' features.

They work on runs of equal length, which are plain three-dimensional views of a packed batch (models/encoder/layout.py).

Shape legend: T tokens laid end to end, S sequences, N sequences of a run, L tokens of each, F features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout


def maximum(x_TF: Tensor, layout: Layout) -> Tensor:
    """Return the maximum over each sequence's tokens, (S, F)."""
    return _by_run(x_TF, layout, lambda run_NLF: run_NLF.amax(1))


def mean(x_TF: Tensor, layout: Layout) -> Tensor:
    """Return the mean over each sequence's tokens, (S, F)."""
    return _by_run(x_TF, layout, lambda run_NLF: run_NLF.mean(1))


class Attention(nn.Module):
    """The mean of a sequence's tokens, weighted by the softmax of one dense output without a bias."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features).uniform_(-(features**-0.5), features**-0.5))

    def forward(self, x_TF: Tensor, layout: Layout) -> Tensor:
        """Return (S, F)."""
        return _by_run(x_TF, layout, self._weighted)

    def _weighted(self, run_NLF: Tensor) -> Tensor:
        shares_NL = torch.softmax(run_NLF @ self.weight, 1)
        return (shares_NL[:, None, :] @ run_NLF)[:, 0]


def _by_run(x_TF: Tensor, layout: Layout, view: Callable[[Tensor], Tensor]) -> Tensor:
    # One split, not a slice per run: the gradient of each slice would be a tensor of zeros as large as x.
    parts = x_TF.split([run.sequences * run.length for run in layout.runs])
    return torch.cat(
        [view(part.view(run.sequences, run.length, -1)) for part, run in zip(parts, layout.runs, strict=True)]
    )
