"""Shingles: all runs of n characters in a text, as 64-bit hashes, for many texts at once.

Two different shingles share a hash with a chance of 2^-64, which is too rare to matter. Time and memory grow with the
characters: 12 bytes per character of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Shingles:
    """Shingles of a batch of texts, laid end to end.

    Attributes:
        hashes: uint64 (S,), repeats included.
        borders: int64 (T + 1,); the shingles of text t are hashes[borders[t]:borders[t + 1]]. A text shorter than a
            shingle has none.
    """

    hashes: np.ndarray
    borders: np.ndarray

    def of(self, text: int) -> np.ndarray:
        """Return the shingles of one text, repeats included."""
        return self.hashes[self.borders[text] : self.borders[text + 1]]


def shingle(texts: Sequence[str], size: int) -> Shingles:
    """Return the shingles of `size` characters of every text.

    Raises:
        ValueError: the size is below 1.
    """
    if size < 1:
        raise ValueError(f"A shingle has at least 1 character, not {size}.")
    points, ends = code_points(texts)
    borders = np.concatenate([[0], np.cumsum(np.maximum(np.diff(ends) - size + 1, 0))])
    hashes = np.empty(borders[-1], dtype=np.uint64)
    _hash_windows(points, ends, size, borders, hashes)
    return Shingles(hashes, borders)


@compiled
def _hash_windows(points: np.ndarray, ends: np.ndarray, size: int, borders: np.ndarray, hashes: np.ndarray) -> None:
    for text in range(len(ends) - 1):
        for number in range(borders[text + 1] - borders[text]):
            first = ends[text] + number
            value = np.uint64(points[first])
            for offset in range(1, size):
                value = value * _STEP + np.uint64(points[first + offset])
            hashes[borders[text] + number] = mix(value)


@compiled
def mix(value: np.uint64) -> np.uint64:
    """Scramble 64 bits, one to one: every bit of the input affects every bit of the output.

    The finaliser of MurmurHash3 with Stafford's constants (variant 13), as SplitMix64 uses it.
    """
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of common shingles among all of two texts; 1.0 if neither has any.

    Args:
        one, other: sorted shingles without repeats.
    """
    if not len(one) and not len(other):
        return 1.0
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    # Searching for the few among the many costs less than sorting both together.
    place = np.searchsorted(large, small)
    common = int(np.count_nonzero(large[np.minimum(place, len(large) - 1)] == small)) if len(small) else 0
    return common / (len(one) + len(other) - common)
