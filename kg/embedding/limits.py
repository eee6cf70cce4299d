"""What rows of an embedding must obey: their length is 1, or at most 1."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Limit = Callable[[Tensor], Tensor]
"""Takes rows (n, D), gives them as they must be."""


def unit_rows(rows: Tensor) -> Tensor:
    """Every row at length 1; a row of zeros stays."""
    return torch.nn.functional.normalize(rows, dim=-1)


def short_rows(rows: Tensor) -> Tensor:
    """Rows longer than 1 shortened to 1; the others as they are."""
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=1)
