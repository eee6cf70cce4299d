"""A symmetric positive definite matrix in tiles of its lower triangle, inverted in place.

Only half of a dense matrix is ever in memory: 4 n² bytes and, during inversion, 8 · `SIDE` · n more. One block of rows
and columns after the other is swept (Beaton 1964; Goodnight, A Tutorial on the SWEEP Operator, 1979): with D the
inverse of the diagonal tile k and C_i the tile between i and k, the tile of i and j becomes T_ij − C_i D C_jᵀ, that of
i and k becomes C_i D, and that of k itself −D. After all sweeps the tiles contain the negative inverse. This takes n³
operations, as many as a Cholesky factorisation and the inverse from it.

A tile is always changed by one thread, with the same sums in the same order, so the number of threads does not affect
any bit.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse

SIDE = 1024
"""Rows of a tile: large enough for products at the processor's full speed."""


def inverse_on_pattern(matrix: sparse.csr_array, side: int = SIDE) -> np.ndarray:
    """Return entries of the inverse where `matrix` has stored entries, in their order: float64.

    `matrix`: symmetric, positive definite, float64 (n, n). Time n³ (5e10 operations per second and core on the machine
    of benchmarks/knowledge/pepr.py), with torch's number of threads.

    Raises:
        ArithmeticError: the matrix is not positive definite.
    """
    tiles = SymmetricTiles(matrix, side)
    tiles.sweep(range(len(tiles)))
    return -tiles.entries(matrix)


class SymmetricTiles:
    """A symmetric matrix, float64 (n, n), as the tiles of its lower triangle, row by row.

    `len` is the number of rows of tiles.
    """

    def __init__(self, matrix: sparse.csr_array, side: int = SIDE) -> None:
        self._edges = [*range(0, matrix.shape[0], side), matrix.shape[0]]
        self._tiles = [self._of_rows(matrix, row) for row in range(len(self))]
        # Allocated once and overwritten: repeated allocation in many threads would fragment the heap.
        self._spare = [torch.empty(len(own[-1]), side, dtype=torch.float64) for own in self._tiles]

    def __len__(self) -> int:
        return len(self._edges) - 1

    def sweep(self, pivots: Iterable[int]) -> None:
        """Sweep these blocks of rows and columns, with torch's number of threads.

        Raises:
            ArithmeticError: the matrix is not positive definite.
        """
        with _single_threads() as threads:
            for pivot in pivots:
                self._sweep(pivot, threads)

    def entries(self, pattern: sparse.csr_array) -> np.ndarray:
        """Return the entries where the pattern has stored entries, in their order: float64."""
        return np.concatenate([np.zeros(0), *(self._entries(row, pattern) for row in range(len(self)))])

    def _of_rows(self, matrix: sparse.csr_array, row: int) -> list[torch.Tensor]:
        dense = torch.from_numpy(matrix[self._edges[row] : self._edges[row + 1]].toarray())
        return [dense[:, first:last].contiguous() for first, last in pairwise(self._edges[: row + 2])]

    def _sweep(self, pivot: int, threads: Executor) -> None:
        try:
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(self._tiles[pivot][pivot]))
        except torch.linalg.LinAlgError as error:
            raise ArithmeticError(f"the core is not positive definite: {error}") from error
        # C_i and C_i D for all i, then T_ij − C_i D C_jᵀ, and only then may the column itself be overwritten.
        others = [row for row in range(len(self)) if row != pivot]
        column = {row: self._tile(row, pivot) for row in others}
        scaled = {row: self._spare[row][:, : len(inverse)] for row in others}

        def scale(row: int) -> None:
            torch.mm(column[row], inverse, out=scaled[row])

        def update(place: tuple[int, int]) -> None:
            row, other = place
            self._tiles[row][other].addmm_(scaled[row], column[other].T, alpha=-1)

        deque(threads.map(scale, others), maxlen=0)
        deque(threads.map(update, [(row, other) for row in others for other in others if other <= row]), maxlen=0)
        for row in others:
            column[row].copy_(scaled[row])
        self._tiles[pivot][pivot] = -inverse

    def _tile(self, row: int, column: int) -> torch.Tensor:
        return self._tiles[row][column] if column <= row else self._tiles[column][row].T

    def _entries(self, row: int, pattern: sparse.csr_array) -> np.ndarray:
        first, last = self._edges[row], self._edges[row + 1]
        dense = torch.cat([self._tile(row, column) for column in range(len(self))], dim=1).numpy()
        rows = np.repeat(np.arange(last - first), np.diff(pattern.indptr[first : last + 1]))
        return np.asarray(dense[rows, pattern.indices[pattern.indptr[first] : pattern.indptr[last]]])


@contextlib.contextmanager
def _single_threads() -> Iterator[Executor]:
    """Yield a pool of torch's number of threads, while torch itself uses one thread per operation."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as threads:
            yield threads
    finally:
        torch.set_num_threads(count)
