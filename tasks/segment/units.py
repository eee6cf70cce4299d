"""Estimated length in tokens, without a vocabulary.

A run of letters has one token for every 4 letters, and any other character except white space is one token. Time and
memory grow with the characters, about 14 bytes for each in a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import regex

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled

LETTERS_A_TOKEN = 4

_LETTER = r"[\p{Latin}\p{Greek}\p{Cyrillic}]"
"""A letter of an alphabet: `a`, `β` or `Ж`, but not `痛`."""
_BLANK = r"[\s\x1c-\x1f]"
"""White space, including the separators U+001C to U+001F, which count as such in `str.isspace`."""
_UNITS = regex.compile(rf"({_LETTER}++)|[^\s\x1c-\x1f]")
"""A run of letters, as its group, or another character: `TSHR`, or `痛`."""
_OTHER, _IS_LETTER, _IS_BLANK = range(3)


def count_units(text: str) -> int:
    """Return the estimated number of tokens of one text."""
    # Rounded up: 5 letters are 2 tokens.
    return sum(-(-len(run) // LETTERS_A_TOKEN) if run else 1 for run in _UNITS.findall(text))


class UnitCosts:
    """`count_units` of many texts, and of their pieces without counting again.

    Attributes:
        totals: number of tokens of each text: int64 (T,).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        points, self._ends = code_points(texts)
        self._texts = texts
        self._before = np.zeros(len(points) + 1, dtype=np.int64)
        self._inside = np.zeros(len(points), dtype=np.bool_)
        _count(points, self._ends, _kinds(), self._before, self._inside)
        self.totals: np.ndarray = np.diff(self._before[self._ends])

    def of(self, number: int) -> UnitCost:
        """Return the lengths of the pieces of one text."""
        start, end = self._ends[number], self._ends[number + 1]
        return UnitCost(self._texts[number], self._before[start : end + 1], self._inside[start:end])


@compiled
def _count(points: np.ndarray, ends: np.ndarray, kinds: np.ndarray, before: np.ndarray, inside: np.ndarray) -> None:
    """Fill in the number of tokens that begin before each character, and whether it continues a token."""
    for text in range(len(ends) - 1):
        letters = 0
        for place in range(ends[text], ends[text + 1]):
            kind = kinds[points[place]]
            inside[place] = kind == _IS_LETTER and letters % LETTERS_A_TOKEN > 0
            letters = letters + 1 if kind == _IS_LETTER else 0
            before[place + 1] = before[place] + (kind != _IS_BLANK and not inside[place])


class UnitCost:
    """`count_units` of the pieces of one text; made by `UnitCosts`."""

    def __init__(self, text: str, before: np.ndarray, inside: np.ndarray) -> None:
        self._text, self._before, self._inside = text, before, inside

    def __call__(self, start: int, end: int) -> int:
        if start < end and self._inside[start]:  # the piece begins inside a token: groups of 4 letters begin here
            return count_units(self._text[start:end])
        return int(self._before[end] - self._before[start])

    def up_to(self, places: np.ndarray) -> list[int]:
        sums: list[int] = (self._before[places] - self._before[0]).tolist()
        return sums


@functools.cache
def _kinds() -> np.ndarray:
    """Return the kind of every code point."""
    everything = "".join(map(chr, range(0x110000)))
    kinds = np.full(len(everything), _OTHER, dtype=np.uint8)
    for pattern, kind in ((_LETTER, _IS_LETTER), (_BLANK, _IS_BLANK)):
        for match in regex.finditer(f"{pattern}+", everything):
            kinds[match.start() : match.end()] = kind
    return kinds
