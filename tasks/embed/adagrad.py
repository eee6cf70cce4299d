"""AdaGrad on GloVe's weighted least squares (GloVe, equation 8), in threads that never share a parameter.

    J = sum over i, j of f(X_ij) (w_i . c_j + a_i + b_j - log X_ij)^2 / 2,    f(x) = min(1, (x / x_max)^alpha)

As in Stanford's program, words and contexts have vectors and biases of their own. Each step is the learning rate times
the gradient, divided by the root of the sum of its predecessors' squares, which begins at 1. (The factor 1/2 is the
program's; the paper's J has none.)

Words are dealt into `BLOCKS` blocks by their row. A cell has the pairs between two blocks, or within one. The cells of
a round share no block, so threads can take one each without sharing a parameter, and both directions of a pair are
steps of one cell. Within a cell, pairs keep the order of their hashes. So the steps that touch a parameter come in one
fixed order, and every bit of the result is the same for any number of threads.

Shape legend: W words, D width, padded with zeros to a multiple of `LANES`; P pairs of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from infra.arrays.compiled import compiled

BLOCKS = 16
"""Blocks of words: up to 8 threads have a cell to work on."""

LANES = 8
"""Sums that a dot product is made of; the processor adds them side by side."""


class Chunk(NamedTuple):
    """Pairs in the order in which they are trained, cell by cell."""

    rows: np.ndarray
    """uint32 (P,): i of each pair."""
    columns: np.ndarray
    """uint32 (P,): j of each pair; the other direction, j and i, is trained with it."""
    logs: np.ndarray
    """float32 (P,): log X_ij."""
    weights: np.ndarray
    """float32 (P,): f(X_ij)."""
    borders: np.ndarray
    """int64 (BLOCKS * BLOCKS + 1,): where each cell begins; cell r * BLOCKS + n is the n-th of round r."""


@dataclass(frozen=True)
class Parameters:
    """All that training changes; sums of squares begin at 1."""

    words: np.ndarray
    """float32 (W, D)."""
    contexts: np.ndarray
    """float32 (W, D)."""
    word_biases: np.ndarray
    """float32 (W,)."""
    context_biases: np.ndarray
    """float32 (W,)."""
    word_squares: np.ndarray
    context_squares: np.ndarray
    word_bias_squares: np.ndarray
    context_bias_squares: np.ndarray

    @classmethod
    def start(cls, words: int, width: int, seed: int) -> Parameters:
        """Return parameters drawn evenly from [-0.5, 0.5) / width, as in Stanford's program."""
        random = np.random.default_rng(seed)
        padded = -(-width // LANES) * LANES
        found = []
        for shape in ((words, width), (words, width), (words,), (words,)):
            drawn = ((random.random(shape) - 0.5) / width).astype(np.float32)
            # Padding stays zero: its gradient is a product with the zeros of the other side.
            found.append(np.pad(drawn, [(0, 0), (0, padded - width)]) if len(shape) == 2 else drawn)
        return cls(*found, *(np.ones_like(array) for array in found))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def chunk_of(rows: np.ndarray, columns: np.ndarray, counts: np.ndarray, x_max: float, alpha: float) -> Chunk:
    """Return pairs in the order in which they are trained: by round, cell, and then as they are given."""
    one, other = rows % BLOCKS, columns % BLOCKS
    # Round-robin: in round r block b meets block (r - b) mod BLOCKS, so that no block meets two.
    cells = (one + other) % BLOCKS * BLOCKS + np.minimum(one, other)
    order = np.argsort(cells.astype(np.uint16), kind="stable")
    values = counts[order].astype(np.float64)
    return Chunk(
        rows[order],
        columns[order],
        np.log(values).astype(np.float32),
        np.minimum(1.0, (values / x_max) ** alpha).astype(np.float32),
        np.searchsorted(cells[order], np.arange(BLOCKS * BLOCKS + 1)).astype(np.int64),
    )


def train_chunk(parameters: Parameters, chunk: Chunk, rate: float, threads: Executor) -> float:
    """Do one step for each pair of a chunk, in both directions; returns their share of J before each step."""
    cost = 0.0
    for number in range(BLOCKS):
        # `map` gives the costs in the order of the cells: their sum does not depend on the threads either.
        cost += sum(threads.map(lambda cell: _train_cell(parameters, chunk, cell, rate), list(_cells(chunk, number))))
    return cost


def _cells(chunk: Chunk, number: int) -> Iterator[int]:
    """Yield the cells of a round that have pairs."""
    for cell in range(number * BLOCKS, (number + 1) * BLOCKS):
        if chunk.borders[cell] < chunk.borders[cell + 1]:
            yield cell


def _train_cell(parameters: Parameters, chunk: Chunk, cell: int, rate: float) -> float:
    own = slice(int(chunk.borders[cell]), int(chunk.borders[cell + 1]))
    pairs = (chunk.rows[own], chunk.columns[own], chunk.logs[own], chunk.weights[own])
    return _descend(*pairs, np.float32(rate), *parameters.arrays().values())


@compiled
def _descend(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    rate: np.float32,
    words: np.ndarray,
    contexts: np.ndarray,
    word_biases: np.ndarray,
    context_biases: np.ndarray,
    word_squares: np.ndarray,
    context_squares: np.ndarray,
    word_bias_squares: np.ndarray,
    context_bias_squares: np.ndarray,
) -> float:
    cost = 0.0
    for place in range(len(rows)):
        i, j = rows[place], columns[place]
        for direction in range(2):
            if direction == 1:
                if i == j:
                    break  # one entry of the matrix, not two
                i, j = j, i
            w, c = words[i], contexts[j]
            difference = _dot(w, c) + word_biases[i] + context_biases[j] - logs[place]
            weighted = weights[place] * difference
            cost += 0.5 * float(weighted) * float(difference)
            scaled = weighted * rate
            w_squares, c_squares = word_squares[i], context_squares[j]
            for k in range(len(w)):
                for_word, for_context = scaled * c[k], scaled * w[k]
                w[k] -= for_word / np.sqrt(w_squares[k])
                c[k] -= for_context / np.sqrt(c_squares[k])
                w_squares[k] += for_word * for_word
                c_squares[k] += for_context * for_context
            word_biases[i] -= scaled / np.sqrt(word_bias_squares[i])
            context_biases[j] -= scaled / np.sqrt(context_bias_squares[j])
            word_bias_squares[i] += scaled * scaled
            context_bias_squares[j] += scaled * scaled
    return cost


@compiled
def _dot(one: np.ndarray, other: np.ndarray) -> np.float32:
    # One sum would wait for each addition; eight are added side by side, in an order that never changes.
    zero = np.float32(0.0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(0, len(one), 8):
        s0 += one[k] * other[k]
        s1 += one[k + 1] * other[k + 1]
        s2 += one[k + 2] * other[k + 2]
        s3 += one[k + 3] * other[k + 3]
        s4 += one[k + 4] * other[k + 4]
        s5 += one[k + 5] * other[k + 5]
        s6 += one[k + 6] * other[k + 6]
        s7 += one[k + 7] * other[k + 7]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
