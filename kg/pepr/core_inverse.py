"""The inverse of a core system at its own stored entries, computed in blocks of rows.

A core that fits into memory is one block, inverted densely (kg/pepr/tiles.py) with torch's number of threads. A larger
one is solved for a few rows at a time by conjugate gradients, and its blocks can go to many workers. Blocks depend only
on the core and not on the number of threads, so they are the same to the bit wherever they are computed.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from kg.pepr.limits import MAX_DENSE
from kg.pepr.tiles import inverse_on_pattern

ROWS_AT_ONCE = 64
ROWS_A_BLOCK = 1024
RESIDUAL = 1e-14


def row_blocks(core: sparse.csr_array, max_dense: int = MAX_DENSE) -> list[range]:
    """Return ranges of rows for `inverse_entries`; together they are all rows."""
    rows = core.shape[0]
    step = max(1, rows) if rows <= max_dense else ROWS_A_BLOCK
    return [range(first, min(first + step, rows)) for first in range(0, rows, step)]


def inverse_entries(core: sparse.csr_array, block: range) -> np.ndarray:
    """Return entries of the inverse where `core` has stored entries in these rows, in their order: float64.

    `core`: symmetric, positive definite, rows sorted. Time n³ for all rows at once (about 70 s of one core for
    14,000); otherwise stored entries · iterations for each row.

    Raises:
        ArithmeticError: the core is not positive definite.
    """
    if len(block) == core.shape[0]:
        return inverse_on_pattern(core)
    first, last = core.indptr[block.start], core.indptr[block.stop]
    entries = np.empty(last - first)
    for start in range(block.start, block.stop, ROWS_AT_ONCE):
        some = range(start, min(start + ROWS_AT_ONCE, block.stop))
        solutions = _conjugate_gradients(core, some)
        places = slice(core.indptr[some.start], core.indptr[some.stop])
        own = np.repeat(np.arange(len(some)), np.diff(core.indptr[some.start : some.stop + 1]))
        entries[places.start - first : places.stop - first] = solutions[core.indices[places], own]
    return entries


def _conjugate_gradients(core: sparse.csr_array, rows: range) -> np.ndarray:
    """Return columns of the inverse, float64 (n, rows), each solved until its residual is at most `RESIDUAL`.

    The iteration is preconditioned by the diagonal.
    """
    shape = (core.shape[0], len(rows))
    solution, residual = np.zeros(shape), np.zeros(shape)
    residual[np.arange(rows.start, rows.stop), np.arange(len(rows))] = 1
    scale = 1 / core.diagonal()[:, None]
    direction = scale * residual
    energy = (residual * direction).sum(axis=0)
    while (active := np.abs(residual).max(axis=0) > RESIDUAL).any():
        image = core @ direction
        curvature = (direction * image).sum(axis=0)
        if (curvature[active] <= 0).any():
            raise ArithmeticError("the core is not positive definite")
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=active)
        solution += length * direction
        residual -= length * image
        conditioned = scale * residual
        previous, energy = energy, (residual * conditioned).sum(axis=0)
        growth = np.divide(energy, previous, out=np.zeros_like(energy), where=active)
        direction = conditioned + growth * direction
    return solution
