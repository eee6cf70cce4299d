"""Shingles: the runs of n characters that a text is made of, as 64-bit hashes, for many texts at once.

Texts are laid end to end as code points, so that one pass of numpy hashes a whole batch. Two different shingles
share a hash with a chance of 2^-64, which no measure here can see.

Time and memory grow with the characters: about 40 bytes for each character of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        """The shingles of one text."""
        return self.hashes[self.borders[text] : self.borders[text + 1]]


def shingle(texts: Sequence[str], size: int) -> Shingles:
    """The shingles of `size` characters of every text.

    Raises:
        ValueError: size is under 1.
    """
    if size < 1:
        raise ValueError(f"a shingle has at least 1 character, not {size}")
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    counts = np.maximum(lengths - size + 1, 0)
    borders = np.concatenate([[0], np.cumsum(counts)])
    windows = len(points) - size + 1
    if windows <= 0 or not borders[-1]:
        return Shingles(np.empty(0, np.uint64), borders)
    hashes = points[:windows].astype(np.uint64)
    for offset in range(1, size):
        hashes *= _STEP
        hashes += points[offset : offset + windows]
    mix(hashes)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    place = np.arange(borders[-1]) + np.repeat(starts - borders[:-1], counts)
    return Shingles(hashes[place], borders)


def mix(values: np.ndarray) -> np.ndarray:
    """Scramble uint64 values in place, one to one: every bit of the input sways every bit of the output.

    The finaliser of MurmurHash3 with Stafford's constants (variant 13), as SplitMix64 uses it.
    """
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Share of common shingles among all of two texts; each array is sorted and without repeats. 1.0 for two empty."""
    if not len(one) and not len(other):
        return 1.0
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    place = np.searchsorted(large, small)
    common = int(np.count_nonzero(large[np.minimum(place, len(large) - 1)] == small)) if len(small) else 0
    return common / (len(one) + len(other) - common)
