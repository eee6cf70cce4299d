"""A first glance for many phrases: the texts, and the places in a text, that may hold one of them.

Only the first two characters of a phrase are looked for, as a pair, by its hash. A text or place that the glance skips
holds no phrase; at the others a pattern must decide. The glance costs a tenth of a search for the phrases.

Time grows with the characters.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled

_CODES = 0x110000
_PAIRS = 1 << 16
_NONE, _ALONE, _WITH_NEXT = range(3)


class PhraseGlance:
    """Search for the beginnings of some phrases, none of them empty."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self._phrases = tuple(phrases)

    @functools.cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The kind of each code point as a beginning, and the pairs by hash; built on first use, not on import."""
        begins, pairs = np.full(_CODES, _NONE, dtype=np.uint8), np.zeros(_PAIRS, dtype=np.bool_)
        for phrase in self._phrases:
            first, following = ord(phrase[0]), phrase[1:2]
            if not following:
                begins[first] = _ALONE
            elif begins[first] != _ALONE:
                begins[first] = _WITH_NEXT
                pairs[_pair(first, ord(following))] = True
        return begins, pairs

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
    return (first * 40503 + following) & (_PAIRS - 1)


@compiled
def _glance(points: np.ndarray, ends: np.ndarray, begins: np.ndarray, pairs: np.ndarray, found: np.ndarray) -> None:
    for text in range(len(found)):
        for place in range(ends[text], ends[text + 1]):
            mark = begins[points[place]]
            if mark == _NONE:
                continue
            if mark == _ALONE or (place + 1 < ends[text + 1] and pairs[_pair(points[place], points[place + 1])]):
                found[text] = True
                break


@compiled
def _find(points: np.ndarray, begins: np.ndarray, pairs: np.ndarray, places: np.ndarray) -> int:
    found = 0
    for place in range(len(points)):
        mark = begins[points[place]]
        if mark == _NONE:
            continue
        if mark == _ALONE or (place + 1 < len(points) and pairs[_pair(points[place], points[place + 1])]):
            places[found] = place
            found += 1
    return found
