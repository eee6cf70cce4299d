"""Sparse gradients of large tables, of which a step touches few rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from kg.embedding.workers import Workers


@dataclass(frozen=True)
class RowGradient:
    """The gradient of some rows of a table; for all other rows it is zero."""

    rows: Tensor
    """int64 (n,), ascending, distinct."""
    values: Tensor
    """(n, …): one entry per row, shaped like the rows of the table."""


def sum_rows(values: Tensor, places: Tensor, targets: Tensor, signs: Tensor) -> RowGradient:
    """Return the sum of `signs[i] * values[places[i]]` by target, over all i with `targets[i]` = that target.

    Sums are in the order of i, so equal input gives equal bits, even on a GPU, where scattered additions would not.
    values (V, D); places, targets int64 (n,); signs (n,).
    """
    if not len(targets):
        return RowGradient(targets, values[:0])
    order = torch.argsort(targets, stable=True)
    rows, counts = torch.unique_consecutive(targets[order], return_counts=True)
    starts = torch.cumsum(counts, 0) - counts
    sums = embedding_bag(places[order], values, starts, mode="sum", per_sample_weights=signs[order])
    return RowGradient(rows, sums)


def add_over_workers(gradient: RowGradient, touched: Tensor, workers: Workers) -> RowGradient:
    """Return the sum of all workers' gradients of one table.

    `touched`, int64 (m,), ascending and equal on all workers, has every row that is in the gradient of any of them; the
    sum has these rows. Each worker sends m rows.
    """
    values = gradient.values.new_zeros(len(touched), *gradient.values.shape[1:])
    values[torch.searchsorted(touched, gradient.rows)] = gradient.values
    workers.add(values)
    return RowGradient(touched, values)
