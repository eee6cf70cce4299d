"""A layer of BERT with rotary positions (Su et al. 2021, RoFormer): products by NumPy, what lies between them compiled.

Of a short text, most of the time goes to calls of NumPy: what lies between two products is one compiled loop. Time and
memory grow with the characters, the attention's with their square.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from infra.arrays.compiled import compiled

Weights = tuple[np.ndarray, np.ndarray]
"""A matrix or a vector of factors, and what is added."""

_EPSILON = np.float32(1e-12)
"""What is added to a variance, as in BERT."""


class EncoderLayer:
    """Attention over all characters, and two matrices with a function between them."""

    def __init__(self, held: Mapping[str, np.ndarray], name: str, heads: int, is_rectified: bool) -> None:
        """Lay out the weights for few products of large matrices.

        Queries, keys and values are one product. The pairs of columns that a position turns are laid into two halves,
        in queries and keys alike, which leaves their products as they are.

        Args:
            held: matrices and vectors by name, float32.
            name: what the names of this layer begin with.
            heads: heads of the attention.
            is_rectified: True where the inner function is ReLU, False where it is GELU.
        """
        self._heads = heads
        self._is_rectified = is_rectified
        query, key, value = (product(held, f"{name}{each}") for each in ("query", "key", "value"))
        size = query[0].shape[1] // heads
        halves = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])
        columns = (np.arange(heads)[:, None] * size + halves).ravel()
        scale = np.float32(size**-0.5)
        parts = [[each[..., columns] * scale for each in query], [each[..., columns] for each in key], value]
        self._attended: Weights = (
            np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts]),
        )  # fmt: skip
        self._output, self._up, self._down = (product(held, f"{name}{each}") for each in ("output", "up", "down"))
        self._norms = [(held[f"{name}{each}"], held[f"{name}{each}.bias"]) for each in ("attention_norm", "norm")]

    def __call__(self, states: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
        """Return the next states, float32 (N, width), by the cosines and sines of the positions, (N, size / 2)."""
        count, width = states.shape
        attended = np.empty((3 * self._heads, count, width // self._heads), dtype=np.float32)
        turn(states @ self._attended[0], self._attended[1], cosines, sines, attended)
        query, key, value = (attended[first : first + self._heads] for first in range(0, len(attended), self._heads))
        weights = query @ key.transpose(0, 2, 1)
        lower(weights.reshape(-1, count))
        np.exp(weights, out=weights)
        mixed = np.empty_like(states)
        merge(weights @ value, weights.sum(axis=-1), mixed)
        mixed = mixed @ self._output[0]
        add_and_norm(mixed, self._output[1], states, *self._norms[0])
        inner = mixed @ self._up[0]
        if self._is_rectified:
            rectify(inner, self._up[1])
        else:
            inner += self._up[1]
            inner *= np.float32(0.5) * (1 + erf(inner * np.float32(0.5**0.5)))  # GELU
        result: np.ndarray = inner @ self._down[0]
        add_and_norm(result, self._down[1], mixed, *self._norms[1])
        return result


def product(held: Mapping[str, np.ndarray], name: str) -> Weights:
    """Return a matrix as the right side of a product, and what is added."""
    return np.ascontiguousarray(held[name].T), held[f"{name}.bias"]


@compiled
def turn(given: np.ndarray, added: np.ndarray, cosines: np.ndarray, sines: np.ndarray, parts: np.ndarray) -> None:
    """Write queries, keys and values of each head, and turn queries and keys by the angles of their positions.

    Args:
        given: their products, float32 (N, 3 × width).
        added: what is added, float32 (3 × width,).
        cosines: cosine of angle j at each position, which turns the columns j and j + size / 2, float32 (N, size / 2).
        sines: sine of the same.
        parts: result, float32 (3 × heads, N, size).
    """
    many, count, size = parts.shape
    half = size // 2
    for part in range(many):
        first = part * size
        if 3 * part < 2 * many:
            for at in range(count):
                for column in range(half):
                    one = given[at, first + column] + added[first + column]
                    two = given[at, first + half + column] + added[first + half + column]
                    parts[part, at, column] = one * cosines[at, column] - two * sines[at, column]
                    parts[part, at, half + column] = two * cosines[at, column] + one * sines[at, column]
        else:
            for at in range(count):
                for column in range(size):
                    parts[part, at, column] = given[at, first + column] + added[first + column]


@compiled
def lower(rows: np.ndarray) -> None:
    """Take its greatest number from each row, so that exponents are at most 1; float32 (N, M), written."""
    for at in range(rows.shape[0]):
        greatest = rows[at, 0]
        for column in range(1, rows.shape[1]):
            greatest = max(greatest, rows[at, column])
        for column in range(rows.shape[1]):
            rows[at, column] -= greatest


@compiled
def merge(parts: np.ndarray, sums: np.ndarray, merged: np.ndarray) -> None:
    """Write the parts of all heads side by side, divided by the sums of their weights.

    Args:
        parts: float32 (heads, N, size).
        sums: float32 (heads, N).
        merged: result, float32 (N, heads × size).
    """
    heads, count, size = parts.shape
    for head in range(heads):
        for at in range(count):
            share = np.float32(1) / sums[head, at]
            for column in range(size):
                merged[at, head * size + column] = parts[head, at, column] * share


@compiled
def add_and_norm(
    states: np.ndarray, added: np.ndarray, before: np.ndarray, factors: np.ndarray, terms: np.ndarray
) -> None:
    """Add a vector and the states before, and normalise: mean 0 and variance 1 in each row, then factors and terms.

    Args:
        states: float32 (N, width), written.
        added: float32 (width,).
        before: float32 (N, width).
        factors: float32 (width,).
        terms: float32 (width,).
    """
    count, width = states.shape
    size = np.float32(width)
    for at in range(count):
        total = np.float32(0)
        for column in range(width):
            states[at, column] += added[column] + before[at, column]
            total += states[at, column]
        mean = total / size
        total = np.float32(0)
        for column in range(width):
            states[at, column] -= mean
            total += states[at, column] * states[at, column]
        share = np.float32(1) / np.sqrt(total / size + _EPSILON)
        for column in range(width):
            states[at, column] = states[at, column] * share * factors[column] + terms[column]


@compiled
def rectify(states: np.ndarray, added: np.ndarray) -> None:
    """Add a vector to each row, and replace what is negative by zero; float32 (N, width), written."""
    for at in range(states.shape[0]):
        for column in range(states.shape[1]):
            states[at, column] = max(states[at, column] + added[column], np.float32(0))


def erf(values: np.ndarray) -> np.ndarray:
    """Return the error function of float32 values, to 2e-7 (Abramowitz and Stegun 1964, 7.1.26).

    SciPy's took a third of the whole time.
    """
    size = np.abs(values)
    part = 1 / (1 + np.float32(0.3275911) * size)
    sum_of_powers = np.float32(1.061405429) * part
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_of_powers += np.float32(factor)
        sum_of_powers *= part
    return np.copysign(1 - sum_of_powers * np.exp(-size * size), values)
