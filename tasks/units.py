"""Length in tokens where there is no vocabulary yet: a run of letters is a token every 4 letters, any other character
but white space is one.

Time and memory grow with the characters, about 30 bytes for each of a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import regex

from tasks.sentences import Cost

LETTERS_A_TOKEN = 4

_LETTER = r"[\p{Latin}\p{Greek}\p{Cyrillic}]"
_BLANK = r"[\s\x1c-\x1f]"
_UNITS = regex.compile(rf"({_LETTER}++)|[^\s\x1c-\x1f]")
_OTHER, _IS_LETTER, _IS_BLANK = range(3)


def count_units(text: str) -> int:
    """Tokens of one text, estimated."""
    return sum(-(-len(run) // LETTERS_A_TOKEN) if run else 1 for run in _UNITS.findall(text))


def unit_costs(texts: Sequence[str]) -> Iterator[Cost]:
    """For each text the lengths of its pieces."""
    points = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    kinds = _kinds()[points]
    place = np.arange(len(points))
    run_start = np.maximum.accumulate(np.where(kinds == _IS_LETTER, -1, place))
    offset = place - run_start - 1  # of a letter, in its run
    begins = (kinds == _OTHER) | ((kinds == _IS_LETTER) & (offset % LETTERS_A_TOKEN == 0))
    before = np.concatenate([[0], np.cumsum(begins)])
    inside = np.append((kinds == _IS_LETTER) & (offset % LETTERS_A_TOKEN > 0), False)
    first = 0
    for text in texts:
        own = slice(first, first + len(text) + 1)
        yield UnitCost(text, before[own], inside[own])
        first += len(text) + 1


class UnitCost:
    """`count_units` of the pieces of one text, without counting anew."""

    def __init__(self, text: str, before: np.ndarray, inside: np.ndarray) -> None:
        self._text, self._before, self._inside = text, before, inside

    def __call__(self, start: int, end: int) -> int:
        if start < end and self._inside[start]:  # cut within a word, whose letters then count from here
            return count_units(self._text[start:end])
        return int(self._before[end] - self._before[start])

    def up_to(self, places: Sequence[int]) -> Sequence[int]:
        sums: list[int] = (self._before[places] - self._before[0]).tolist()
        return sums


@functools.cache
def _kinds() -> np.ndarray:
    """Kind of every code point."""
    everything = "".join(map(chr, range(0x110000)))
    kinds = np.full(len(everything), _OTHER, dtype=np.uint8)
    for pattern, kind in ((_LETTER, _IS_LETTER), (_BLANK, _IS_BLANK)):
        for match in regex.finditer(f"{pattern}+", everything):
            kinds[match.start() : match.end()] = kind
    return kinds
