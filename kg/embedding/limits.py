"""Constraints on the rows of an embedding: their length is 1, or at most 1."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Limit = Callable[[Tensor], Tensor]
"""Takes rows (n, D) and returns them with the constraint applied."""


def unit_rows(rows: Tensor) -> Tensor:
    """Return every row scaled to length 1; a row of zeros is unchanged."""
    return torch.nn.functional.normalize(rows, dim=-1)


def short_rows(rows: Tensor) -> Tensor:
    """Return the rows with those longer than 1 shortened to 1."""
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=1)
