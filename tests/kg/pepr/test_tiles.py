"""The inverse in tiles: equal to numpy's for any tiles, with the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kg.pepr.tiles import inverse_on_pattern


def system(size: int, seed: int) -> sparse.csr_array:
    """I − 0.85 N of a random graph with some isolated entities."""
    drawn = np.random.default_rng(seed)
    links = np.triu(drawn.integers(0, 4, (size, size)) * (drawn.random((size, size)) < 0.2), 1)
    weights = (links + links.T).astype(float)
    scale = 1 / np.sqrt(np.maximum(weights.sum(axis=0), 1))
    return sparse.csr_array(np.eye(size) - 0.85 * scale[:, None] * weights * scale)


@settings(max_examples=40)
@given(st.integers(0, 40), st.integers(0, 99), st.integers(5, 50))
def test_inverse_equals_numpys(size: int, seed: int, side: int) -> None:
    matrix = system(size, seed)
    rows = np.repeat(np.arange(size), np.diff(matrix.indptr))
    wanted = np.linalg.inv(matrix.toarray())[rows, matrix.indices]
    assert inverse_on_pattern(matrix, side) == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_threads_do_not_change_any_bit_and_their_number_is_restored() -> None:
    matrix, before = system(300, 1), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(inverse_on_pattern(matrix, side=64))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*found)


@pytest.mark.parametrize("bad", [0, 5, 9])
def test_indefinite_matrix_is_rejected(bad: int) -> None:
    """In the first tile, in the middle, in the last."""
    matrix = system(10, 2).toarray()
    matrix[bad, bad] = -1
    before = torch.get_num_threads()
    with pytest.raises(ArithmeticError, match="positive definite"):
        inverse_on_pattern(sparse.csr_array(matrix), side=4)
    assert torch.get_num_threads() == before
