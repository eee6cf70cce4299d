"""A trie of many names in arrays, walked from all places of a text at once.

The edges of each depth are in a hash table with open addressing (Knuth, The Art of Computer Programming 3, section 6.4,
algorithm L), keyed by parent and character; a node is the place of its edge there. One step of all walks is therefore a
few gathers from one small table. Most walks end immediately, because a still smaller table first rules out pairs of
characters with which no name begins.

A node takes 48 to 96 bytes. Walking takes about 40 ns per character of a text in which a name begins at every tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_CHARACTER = np.uint64(21)
"""Bits of a code point."""

_NO_EDGE = np.uint64(2**64 - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_PAIR_STEPS = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)

_ROOM = 4
"""Minimum places per edge: hardly any walk needs to look at a second one."""

_PAIR_ROOM = 16
"""Places per pair of first characters: at most one in so many pairs without a name passes the filter."""


class Matches(NamedTuple):
    """Longest name at each place where one begins."""

    begins: np.ndarray
    """int64 (M,), ascending."""
    ends: np.ndarray
    """int64 (M,)."""
    names: np.ndarray
    """int64 (M,): indices in the list of names."""


class SurfaceTrie:
    """A trie over names of at least two characters each.

    Args:
        names: distinct names.

    Raises:
        ValueError: a name is shorter than two characters, or occurs twice.
    """

    def __init__(self, names: Sequence[str]) -> None:
        lengths = np.array([len(name) for name in names], dtype=np.int64)
        if len(set(names)) < len(names) or lengths.min(initial=2) < 2:
            raise ValueError("the names of a trie must be distinct and have at least two characters")
        points = np.frombuffer("".join(names).encode("utf-32-le"), dtype="<u4")
        firsts = np.cumsum(lengths) - lengths
        self._pairs = _PairFilter(points[firsts], points[firsts + 1])
        self._depths: list[_Edges] = []
        left = np.arange(len(names))
        nodes = points[firsts].astype(np.int64)
        for depth in range(1, int(lengths.max(initial=1))):
            long = lengths[left] > depth
            left, nodes = left[long], nodes[long]
            edges = _edge(nodes, points[firsts[left] + depth])
            table = _Edges(_distinct(edges))
            nodes = table.follow(edges)
            whole = lengths[left] == depth + 1
            table.names[nodes[whole]] = left[whole]
            self._depths.append(table)

    def longest(self, points: np.ndarray, borders: np.ndarray) -> Matches:
        """Return the longest name from each place that begins and ends at a border, where there is one.

        Args:
            points: uint32 (n,), characters of a text.
            borders: bool (n + 1,), places where a name may begin or end.
        """
        begins = np.flatnonzero(self._pairs.admit(points[:-1], points[1:]) & borders[: max(len(points) - 1, 0)])
        ends = np.zeros(len(points), dtype=np.int64)
        names = np.empty(len(points), dtype=np.int32)
        # All walks take their next step together; walks that leave the trie drop out. A node of depth 1 is a character.
        at, nodes = begins, points[begins].astype(np.int64)
        for depth, table in enumerate(self._depths, 1):
            if len(at) and at[-1] + depth == len(points):  # the last walk has reached the end of the text
                at, nodes = at[:-1], nodes[:-1]
            if not len(at):
                break
            nodes = table.follow(_edge(nodes, points[at + depth]))
            there = np.flatnonzero(nodes >= 0)
            at, nodes = at[there], nodes[there]
            name = table.names[nodes]
            whole = np.flatnonzero((name >= 0) & borders[at + (depth + 1)])
            # Deeper steps overwrite shallower ones, so that the longest name remains.
            ends[at[whole]] = at[whole] + (depth + 1)
            names[at[whole]] = name[whole]
        begins = begins[ends[begins] > 0]
        return Matches(begins, ends[begins], names[begins].astype(np.int64))


class _Edges:
    """Edges of one depth: places in a table whose size is a power of two.

    Args:
        edges: uint64, distinct.

    Attributes:
        names: int32, the name that ends with the edge at each place, or -1.
    """

    def __init__(self, edges: np.ndarray) -> None:
        bits = max(4, (_ROOM * len(edges) - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._table = np.full(1 << bits, _NO_EDGE, dtype=np.uint64)
        self.names = np.full(1 << bits, -1, dtype=np.int32)
        left, places = edges, self._place(edges)
        while len(left):  # if several edges want a free place, one gets it and the others try the next
            free = self._table[places] == _NO_EDGE
            self._table[places[free]] = left[free]
            others = self._table[places] != left
            left, places = left[others], self._next(places[others])

    def follow(self, edges: np.ndarray) -> np.ndarray:
        """Return the place of each edge, int64, or -1."""
        found = self._place(edges)
        held = self._table.take(found)
        left = np.flatnonzero(held != edges)
        held = held[left]
        while len(left):
            free = held == _NO_EDGE
            found[left[free]] = -1
            left = left[~free]
            found[left] = self._next(found[left])
            held = self._table.take(found[left])
            others = held != edges[left]
            left, held = left[others], held[others]
        return found

    def _place(self, edges: np.ndarray) -> np.ndarray:
        places = edges * _STEP
        places >>= self._shift
        return places.view(np.int64)

    def _next(self, places: np.ndarray) -> np.ndarray:
        return (places + 1) & (len(self._table) - 1)


class _PairFilter:
    """Filter of the pairs of characters that may begin a name: it has false positives and no false negatives."""

    def __init__(self, firsts: np.ndarray, seconds: np.ndarray) -> None:
        pairs = len(_distinct(_edge(firsts, seconds)))
        bits = max(4, (_PAIR_ROOM * pairs - 1).bit_length())
        self._shift = np.uint32(32 - bits)
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[self._place(firsts, seconds)] = True

    def admit(self, firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        return self._table.take(self._place(firsts, seconds))

    def _place(self, firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        one, other = _PAIR_STEPS
        places: np.ndarray = firsts * one + seconds * other
        return places >> self._shift


def _edge(nodes: np.ndarray, characters: np.ndarray) -> np.ndarray:
    return (nodes.astype(np.uint64) << _CHARACTER) | characters


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values, sorted; np.unique, which hashes, takes far longer."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
