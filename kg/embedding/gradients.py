"""Gradients of large tables of which a step touches few rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from kg.embedding.workers import Workers


@dataclass(frozen=True)
class RowGradient:
    """The gradient of some rows of a table; that of all others is zero."""

    rows: Tensor
    """int64 (n,), ascending, distinct."""
    values: Tensor
    """(n, …): one entry a row, shaped as the table's rows."""


def sum_rows(values: Tensor, places: Tensor, targets: Tensor, signs: Tensor) -> RowGradient:
    """For each distinct target, the sum of `signs[i] * values[places[i]]` over all i with `targets[i]` = that target.

    The order of a sum is that of i, so equal input gives equal bits, on a GPU too, where scattered additions would
    not. values (V, D); places, targets int64 (n,); signs (n,).
    """
    if not len(targets):
        return RowGradient(targets, values[:0])
    order = torch.argsort(targets, stable=True)
    rows, counts = torch.unique_consecutive(targets[order], return_counts=True)
    starts = torch.cumsum(counts, 0) - counts
    sums = embedding_bag(places[order], values, starts, mode="sum", per_sample_weights=signs[order])
    return RowGradient(rows, sums)


def add_over_workers(gradient: RowGradient, touched: Tensor, workers: Workers) -> RowGradient:
    """The sum of all workers' gradients of one table.

    `touched`, int64 (m,), ascending and equal on all workers, names every row that any of them may hold; the sum has
    these rows. Each worker sends m rows.
    """
    values = gradient.values.new_zeros(len(touched), *gradient.values.shape[1:])
    values[torch.searchsorted(touched, gradient.rows)] = gradient.values
    workers.add(values)
    return RowGradient(touched, values)
