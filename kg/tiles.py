"""A symmetric positive definite matrix in tiles of its lower triangle, and its inverse in their place.

Half of a dense matrix is all that is ever held: 4 n² bytes and, while it is inverted, 8 · `SIDE` · n more. One block
of rows and columns after the other is swept (Beaton 1964; Goodnight, A Tutorial on the SWEEP Operator, 1979): with D
the inverse of the diagonal tile k and C_i the tile between i and k, the tile of i and j becomes T_ij − C_i D C_jᵀ, that
of i and k C_i D, and that of k itself −D. When all are swept, the negative inverse stands there, after n³ operations,
as many as a Cholesky factorisation and the inverse from it take.

A tile is always changed by one thread, by the same sums in the same order: how many threads there are has no influence
on any bit.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse

SIDE = 1024
"""Rows of a tile: large enough for products at the processor's full speed."""


def inverse_on_pattern(matrix: sparse.csr_array, side: int = SIDE) -> np.ndarray:
    """Entries of the inverse where `matrix` has stored entries, in their order: float64.

    `matrix`: symmetric, positive definite, float64 (n, n). Time n³ (5e10 operations a second and core on the
    machine of benchmarks/pepr.py), in as many threads as torch is set to.

    Raises:
        ArithmeticError: the matrix is not positive definite.
    """
    edges = [*range(0, matrix.shape[0], side), matrix.shape[0]]
    tiles = [_tiles_of_rows(matrix, edges, row) for row in range(len(edges) - 1)]
    # Made once and written over: pieces that come and go in many threads would fall apart in the heap.
    spare = [torch.empty(len(own[-1]), side, dtype=torch.float64) for own in tiles]
    with _single_threads() as threads:
        for pivot in range(len(tiles)):
            _sweep(tiles, pivot, spare, threads)
    return np.concatenate([np.zeros(0), *(_entries(tiles, row, matrix, edges) for row in range(len(tiles)))])


def _tiles_of_rows(matrix: sparse.csr_array, edges: list[int], row: int) -> list[torch.Tensor]:
    """The tiles of a block of rows up to the diagonal."""
    dense = torch.from_numpy(matrix[edges[row] : edges[row + 1]].toarray())
    return [dense[:, first:last].contiguous() for first, last in pairwise(edges[: row + 2])]


def _sweep(tiles: list[list[torch.Tensor]], pivot: int, spare: list[torch.Tensor], threads: Executor) -> None:
    """Sweep one block of rows and columns. `spare`: room for a tile of every row."""
    try:
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(tiles[pivot][pivot]))
    except torch.linalg.LinAlgError as error:
        raise ArithmeticError(f"the core is not positive definite: {error}") from error
    others = [row for row in range(len(tiles)) if row != pivot]
    column = {row: _tile(tiles, row, pivot) for row in others}
    scaled = {row: spare[row][:, : len(inverse)] for row in others}

    def scale(row: int) -> None:
        torch.mm(column[row], inverse, out=scaled[row])

    def update(place: tuple[int, int]) -> None:
        row, other = place
        tiles[row][other].addmm_(scaled[row], column[other].T, alpha=-1)

    deque(threads.map(scale, others), maxlen=0)
    deque(threads.map(update, [(row, other) for row in others for other in others if other <= row]), maxlen=0)
    for row in others:
        column[row].copy_(scaled[row])
    tiles[pivot][pivot] = -inverse


def _tile(tiles: list[list[torch.Tensor]], row: int, column: int) -> torch.Tensor:
    return tiles[row][column] if column <= row else tiles[column][row].T


def _entries(tiles: list[list[torch.Tensor]], row: int, pattern: sparse.csr_array, edges: list[int]) -> np.ndarray:
    """The negated entries of a block of rows, where the pattern has some."""
    first, last = edges[row], edges[row + 1]
    dense = torch.cat([_tile(tiles, row, column) for column in range(len(tiles))], dim=1).numpy()
    rows = np.repeat(np.arange(last - first), np.diff(pattern.indptr[first : last + 1]))
    return -dense[rows, pattern.indices[pattern.indptr[first] : pattern.indptr[last]]]


@contextlib.contextmanager
def _single_threads() -> Iterator[Executor]:
    """As many threads as torch is set to, each of which does what it is given alone."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as threads:
            yield threads
    finally:
        torch.set_num_threads(count)
