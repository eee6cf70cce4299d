"""A first glance for many phrases: the texts, and the places in a text, that may hold one of them.

Only the first three characters of a phrase are looked for, by their hash: 治疗卡 is passed by in 治疗高血压. A text or
place that the glance skips holds no phrase; at the others a pattern must decide. The glance costs a tenth of a search
for the phrases.

Time grows with the characters.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled

_CODES = 0x110000
_HASHES = 1 << 18
_NONE, _ALONE, _LONGER = range(3)
"""What begins no phrase, what is one by itself, and what must be followed by something."""


class PhraseGlance:
    """Search for the beginnings of some phrases, none of them empty."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self._phrases = tuple(phrases)

    @functools.cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What one character, two (by hash) and three are as a beginning; built on first use, not on import."""
        ones, twos, threes = (np.full(size, _NONE, dtype=np.uint8) for size in (_CODES, _HASHES, _HASHES))
        for phrase in self._phrases:
            first, second, third = (ord(character) for character in phrase[:3].ljust(3))
            steps = [(ones, first), (twos, _pair(first, second)), (threes, _pair(_pair(first, second), third))]
            for length, (table, place) in enumerate(steps[: len(phrase)], start=1):
                kind = _ALONE if length == len(phrase) else _LONGER
                table[place] = kind if table[place] == _NONE else min(table[place], kind)
        return ones, twos, threes

    def may_hold(self, texts: Sequence[str]) -> np.ndarray:
        """Return False for texts that hold none of the phrases: bool (T,)."""
        points, ends = code_points(texts)
        found = np.zeros(len(texts), dtype=np.bool_)
        _glance(points, ends, *self._tables, found)
        return found

    def places(self, text: str) -> list[int]:
        """Return the places in a text where a phrase may begin, in order; none begins elsewhere."""
        points = points_of(text)
        places = np.empty(len(points), dtype=np.int64)
        found: list[int] = places[: _find(points, *self._tables, places)].tolist()
        return found


@compiled
def _pair(first: int, following: int) -> int:
    return (first * 40503 + following) & (_HASHES - 1)


@compiled
def _glance(
    points: np.ndarray, ends: np.ndarray, ones: np.ndarray, twos: np.ndarray, threes: np.ndarray, found: np.ndarray
) -> None:
    place = np.empty(1, dtype=np.int64)
    for text in range(len(found)):
        found[text] = _find(points[ends[text] : ends[text + 1]], ones, twos, threes, place) > 0


@compiled
def _find(points: np.ndarray, ones: np.ndarray, twos: np.ndarray, threes: np.ndarray, places: np.ndarray) -> int:
    """Write where a phrase may begin, as many places as fit; return how many."""
    found, end = 0, len(points)
    for place in range(end):
        kind = ones[points[place]]
        if kind == _NONE:
            continue
        if kind == _LONGER:
            if place + 1 == end:
                continue
            pair = _pair(points[place], points[place + 1])
            kind = twos[pair]
            if kind == _NONE:
                continue
            if kind == _LONGER and (place + 2 == end or threes[_pair(pair, points[place + 2])] == _NONE):
                continue
        if found == len(places):
            break
        places[found] = place
        found += 1
    return found
