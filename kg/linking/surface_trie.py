"""A trie of many names in arrays, walked from the places of a text by compiled code.

The edges of each depth are in a hash table with open addressing (Knuth, The Art of Computer Programming 3, section 6.4,
algorithm L), keyed by parent and character; a node is the place of its edge there. Most walks are not begun at all,
because a small table rules out pairs of characters with which no name begins.

A node takes 48 to 96 bytes. A text of a few words costs about as much per character as a batch of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from infra.arrays.compiled import compiled

_CHARACTER = np.uint64(21)
"""Bits of a code point."""

_NO_EDGE = np.uint64(2**64 - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_PAIR_STEPS = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)
_LOW_32 = np.uint64(0xFFFFFFFF)

_ROOM = 4
"""Minimum places per edge: hardly any walk needs to look at a second one."""

_PAIR_ROOM = 16
"""Places per pair of first characters: at most one in so many pairs without a name passes the filter."""


class Matches(NamedTuple):
    """Names in a text, none of which overlaps another."""

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
        depths: list[_Edges] = []
        for depth in range(1, int(lengths.max(initial=1))):
            long = lengths[left] > depth
            left, nodes = left[long], nodes[long]
            edges = _edge(nodes, points[firsts[left] + depth])
            table = _Edges(_distinct(edges))
            nodes = table.places_of(edges)
            whole = lengths[left] == depth + 1
            table.names[nodes[whole]] = left[whole]
            depths.append(table)
        sizes = [len(table.edges) for table in depths]
        self._begins = np.cumsum([0, *sizes])
        self._shifts = np.array([table.shift for table in depths], dtype=np.uint64)
        self._edges = np.concatenate([np.empty(0, np.uint64), *(table.edges for table in depths)])
        self._names = np.concatenate([np.empty(0, np.int32), *(table.names for table in depths)])

    def leftmost_longest(self, points: np.ndarray, borders: np.ndarray) -> Matches:
        """Return the names in a text from left to right: at each place the longest, and none within another.

        Args:
            points: uint32 (n,), characters of a text.
            borders: bool (n + 1,), places where a name may begin or end.
        """
        found = np.empty((3, len(points) // 2), dtype=np.int64)  # a name has two characters at least
        pairs = self._pairs
        count = _walked(
            points, borders, pairs.table, pairs.shift, self._edges, self._names, self._begins, self._shifts, found
        )
        return Matches(*found[:, :count])


@compiled
def _walked(
    points: np.ndarray,
    borders: np.ndarray,
    pairs: np.ndarray,
    pair_shift: np.uint64,
    edges: np.ndarray,
    names: np.ndarray,
    begins: np.ndarray,
    shifts: np.ndarray,
    found: np.ndarray,
) -> int:
    """Write begins, ends and names of the matches into `found`, int64 (3, n // 2); return their number.

    Args:
        edges: uint64, the tables of all depths, one after the other; `names` likewise.
        begins: int64 (depths + 1,): where the table of each depth begins in them.
        shifts: uint64 (depths,): bits to cut from a hash at each depth.
    """
    one, other = np.uint64(_PAIR_STEPS[0]), np.uint64(_PAIR_STEPS[1])
    count, at, last = 0, 0, len(points) - 1
    while at < last:
        pair = (np.uint64(points[at]) * one + np.uint64(points[at + 1]) * other) & _LOW_32
        if not (borders[at] and pairs[pair >> pair_shift]):
            at += 1
            continue
        name, end = -1, at + 1
        node = np.uint64(points[at])  # a node of depth 0 is a character
        for depth in range(len(shifts)):
            here = at + depth + 1
            if here > last:
                break
            edge = (node << _CHARACTER) | np.uint64(points[here])
            first = begins[depth]
            size = begins[depth + 1] - first
            place = np.int64((edge * _STEP) >> shifts[depth])
            while edges[first + place] != edge and edges[first + place] != _NO_EDGE:
                place = (place + 1) & (size - 1)
            if edges[first + place] == _NO_EDGE:
                break
            node = np.uint64(place)
            if names[first + place] >= 0 and borders[here + 1]:
                name, end = names[first + place], here + 1
        if name >= 0:
            found[0, count], found[1, count], found[2, count] = at, end, name
            count += 1
        at = end
    return count


class _Edges:
    """Edges of one depth: places in a table whose size is a power of two.

    Args:
        edges: uint64, distinct.

    Attributes:
        edges: uint64, the edge at each place, or `_NO_EDGE`.
        names: int32, the name that ends with the edge at each place, or -1.
        shift: bits to cut from the hash of an edge.
    """

    def __init__(self, edges: np.ndarray) -> None:
        bits = max(4, (_ROOM * len(edges) - 1).bit_length())
        self.shift = np.uint64(64 - bits)
        self.edges = np.full(1 << bits, _NO_EDGE, dtype=np.uint64)
        self.names = np.full(1 << bits, -1, dtype=np.int32)
        left, places = edges, self._place(edges)
        while len(left):  # if several edges want a free place, one gets it and the others try the next
            free = self.edges[places] == _NO_EDGE
            self.edges[places[free]] = left[free]
            others = self.edges[places] != left
            left, places = left[others], self._next(places[others])

    def places_of(self, edges: np.ndarray) -> np.ndarray:
        """Return the places of edges that are there: int64."""
        places = self._place(edges)
        left = np.flatnonzero(self.edges[places] != edges)
        while len(left):
            places[left] = self._next(places[left])
            left = left[self.edges[places[left]] != edges[left]]
        return places

    def _place(self, edges: np.ndarray) -> np.ndarray:
        places = edges * _STEP
        places >>= self.shift
        return places.view(np.int64)

    def _next(self, places: np.ndarray) -> np.ndarray:
        return (places + 1) & (len(self.edges) - 1)


class _PairFilter:
    """Filter of the pairs of characters that may begin a name: it has false positives and no false negatives."""

    def __init__(self, firsts: np.ndarray, seconds: np.ndarray) -> None:
        pairs = len(_distinct(_edge(firsts, seconds)))
        bits = max(4, (_PAIR_ROOM * pairs - 1).bit_length())
        self.shift = np.uint64(32 - bits)
        self.table = np.zeros(1 << bits, dtype=bool)
        one, other = _PAIR_STEPS
        places: np.ndarray = firsts * one + seconds * other
        self.table[places >> np.uint32(self.shift)] = True


def _edge(nodes: np.ndarray, characters: np.ndarray) -> np.ndarray:
    return (nodes.astype(np.uint64) << _CHARACTER) | characters


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values, sorted; np.unique, which hashes, takes far longer."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
