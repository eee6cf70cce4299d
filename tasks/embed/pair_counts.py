"""Weighted counts of the pairs of words in windows, in a table of fixed size (GloVe's co-occurrence matrix).

Words at distance d count 1 / d. Counts are kept as integers, 1 / d as `unit(window) / d`, which is whole for every
distance, so that sums are exact and do not depend on the order of text, parts or workers. A pair (i, j) with i <= j
stands for both directions; of two equal words both count, so that entry (i, i) grows by 2 / d.

Pairs are ordered by a hash. A partition has the pairs of one range of hashes, so that all partitions end to end are the
same sequence, however many they are; and since the hash mixes all pairs, training can read them in this order.

Shape legend: T words of the sequences laid end to end, P pairs, K partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from infra.arrays.compiled import compiled

SLOTS = 1 << 23
"""Places of the table, 16 bytes each; it is emptied when half of them are taken."""

LONGEST_WINDOW = 20
"""Longest window: its unit, 232,792,560, leaves room in 63 bits for 39 billion neighbours of a pair."""

_EMPTY = np.uint64(2**64 - 1)
_LOW = np.uint64(2**32 - 1)


class PairCounts(NamedTuple):
    """Pairs in the order of their hashes, each once, with their counts in units."""

    keys: np.ndarray
    """uint64 (P,): i in the upper half and j in the lower, i <= j."""
    sums: np.ndarray
    """int64 (P,)."""

    @property
    def rows(self) -> np.ndarray:
        """uint32 (P,): i of each pair."""
        return (self.keys >> np.uint64(32)).astype(np.uint32)

    @property
    def columns(self) -> np.ndarray:
        """uint32 (P,): j of each pair."""
        return (self.keys & _LOW).astype(np.uint32)


def unit(window: int) -> int:
    """Return the count of two neighbouring words: the least common multiple of all distances."""
    return math.lcm(*range(1, window + 1))


def count_pairs(words_T: np.ndarray, borders: np.ndarray, window: int, slots: int = SLOTS) -> Iterator[PairCounts]:
    """Yield the pairs of some sequences, whenever the table is half full and at the end; a pair may come again.

    Args:
        words_T: uint32, rows of words, sequences end to end.
        borders: int64 (S + 1,), where each sequence begins.
        window: largest distance of two words that count.
        slots: places of the table, a power of two; more if the longest sequence needs them.

    Time grows with T times the window, memory with the slots.
    """
    longest = int(np.diff(borders).max(initial=0))
    while slots < 4 * longest * window:
        slots *= 2
    weights = np.array([0, *(unit(window) // distance for distance in range(1, window + 1))], dtype=np.int64)
    keys, sums = np.full(slots, _EMPTY), np.zeros(slots, dtype=np.int64)
    first = 0
    while first < len(borders) - 1:
        first = _add(words_T, borders, first, weights, keys, sums, slots // 2)
        yield in_order(keys[keys != _EMPTY], sums[keys != _EMPTY])
        keys.fill(_EMPTY)
        sums.fill(0)


def in_order(keys: np.ndarray, sums: np.ndarray) -> PairCounts:
    """Return pairs in the order of their hashes, the sums of equal ones added up."""
    if not len(keys):
        return PairCounts(keys, sums)
    order = np.argsort(hashes(keys), kind="stable")
    keys, sums = keys[order], sums[order]
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return PairCounts(keys[firsts], np.add.reduceat(sums, firsts))


def partition_borders(counts: PairCounts, partitions: int) -> np.ndarray:
    """Return where each of K ranges of hashes begins among ordered pairs, and the end: int64 (K + 1,)."""
    starts = np.array([number * 2**64 // partitions for number in range(partitions)], dtype=np.uint64)
    inner = np.searchsorted(hashes(counts.keys), starts)
    return np.append(inner, len(counts.keys)).astype(np.int64)


def hashes(keys: np.ndarray) -> np.ndarray:
    """Return the hash of each key, uint64 (P,); different keys have different hashes."""
    found = np.empty_like(keys)
    _hash_all(keys, found)
    return found


@compiled
def _mixed(key: np.uint64) -> np.uint64:
    # The finaliser of splitmix64: a bijection whose bits all depend on all bits of the key.
    mixed = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def _hash_all(keys: np.ndarray, found: np.ndarray) -> None:
    for place in range(len(keys)):
        found[place] = _mixed(keys[place])


@compiled
def _add(
    words: np.ndarray,
    borders: np.ndarray,
    first: int,
    weights: np.ndarray,
    keys: np.ndarray,
    sums: np.ndarray,
    most: int,
) -> int:
    """Add the pairs of sequences from `first` on until `most` slots are taken; returns the next sequence."""
    mask = np.uint64(len(keys) - 1)
    empty = np.uint64(18446744073709551615)
    taken = 0
    sequence = first
    while sequence < len(borders) - 1 and taken < most:
        end = borders[sequence + 1]
        for place in range(borders[sequence], end):
            for distance in range(1, min(len(weights), end - place)):
                one, other = np.uint64(words[place]), np.uint64(words[place + distance])
                weight = weights[distance]
                if one == other:
                    weight *= 2
                key = (min(one, other) << np.uint64(32)) | max(one, other)
                slot = _mixed(key) & mask
                while keys[slot] != key and keys[slot] != empty:
                    slot = (slot + np.uint64(1)) & mask
                if keys[slot] == empty:
                    keys[slot] = key
                    taken += 1
                sums[slot] += weight
        sequence += 1
    return sequence
