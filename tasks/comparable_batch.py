"""The comparable forms of many texts at once: what `tasks.comparable.comparable` gives for each, several times faster.

Texts are laid end to end as code points and go through one table; most characters become one, some (… ℃ ①) a few.
A text with a character whose form depends on its neighbours (a combining mark, a Greek sigma) is left to
`comparable`.

Time and memory grow with the characters of the batch: about 30 bytes each.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.comparable import DIGIT, LETTER, comparable, guarded

_END = 0x20000
"""The table's end; what lies beyond (rare Chinese characters, some of them compatibility forms) shares one row."""

_PLAIN, _BLANK, _EXPANDED, _HARD = range(4)
_NEITHER, _IS_DIGIT, _IS_LETTER = range(3)


class _Table(NamedTuple):
    kind: np.ndarray
    """uint8: _PLAIN, _BLANK, _EXPANDED or _HARD."""
    form: np.ndarray
    """uint32: what a plain character becomes."""
    script: np.ndarray
    """uint8: whether a blank beside it matters."""
    first: np.ndarray
    """int64: where the form of an expanded character begins in `long`."""
    length: np.ndarray
    """int64: characters of its form."""
    long: np.ndarray
    """uint32: the forms, end to end."""


def comparables(texts: Sequence[str]) -> list[str]:
    """`comparable` of every text."""
    table = _table()
    points, starts = _laid_out(texts)
    kinds = table.kind[np.minimum(points, _END)]
    hard = set(_owners(np.flatnonzero(kinds == _HARD), starts).tolist())
    if (kinds == _EXPANDED).any():
        points, starts = _expanded(points, starts, kinds, table)
        kinds = table.kind[np.minimum(points, _END)]
    points, starts = _without_blanks(points, starts, kinds == _BLANK, table)
    data = points.astype("<u4").tobytes()
    borders = (starts * 4).tolist()
    return [
        comparable(text) if number in hard else data[borders[number] : borders[number + 1]].decode("utf-32-le")
        for number, text in enumerate(texts)
    ]


def _laid_out(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Code points of all texts, and where each begins (and the last ends)."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return points, np.cumsum([0, *map(len, texts)])


def _owners(places: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.searchsorted(starts, places, side="right") - 1


def _expanded(
    points: np.ndarray, starts: np.ndarray, kinds: np.ndarray, table: _Table
) -> tuple[np.ndarray, np.ndarray]:
    """Replace characters whose form is longer than one; the others stay as they are."""
    places = np.flatnonzero(kinds == _EXPANDED)
    codes = points[places]
    lengths = table.length[codes]
    begins = places + np.concatenate([[0], np.cumsum(lengths - 1)[:-1]])
    grown = np.empty(len(points) + int((lengths - 1).sum()), dtype=np.uint32)
    is_form = np.zeros(len(grown), dtype=bool)
    targets = np.repeat(begins - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    sources = np.repeat(table.first[codes] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    is_form[targets] = True
    grown[targets] = table.long[sources]
    grown[~is_form] = np.delete(points, places)
    added = np.concatenate([[0], np.cumsum(lengths - 1)])
    return grown, starts + added[np.searchsorted(places, starts)]


def _without_blanks(
    points: np.ndarray, starts: np.ndarray, is_blank: np.ndarray, table: _Table
) -> tuple[np.ndarray, np.ndarray]:
    """The forms of plain characters, with one blank where it alone parts two numbers or two words."""
    solid = np.flatnonzero(~is_blank)
    codes = np.minimum(points[solid], _END)
    forms = np.where(codes < _END, table.form[codes], points[solid])
    gaps = np.flatnonzero(np.diff(solid) > 1)
    script = table.script[np.minimum(forms, _END)]
    matters = (script[gaps] == script[gaps + 1]) & (script[gaps] != _NEITHER)
    matters &= _owners(solid[gaps], starts) == _owners(solid[gaps + 1], starts)
    kept = gaps[matters]
    new_starts = np.searchsorted(solid, starts)
    new_starts = new_starts + np.searchsorted(kept, new_starts)
    return np.insert(forms, kept + 1, ord(" ")), new_starts


@functools.cache
def _table() -> _Table:
    kind = np.full(_END + 1, _HARD, dtype=np.uint8)
    form = np.zeros(_END + 1, dtype=np.uint32)
    script = np.zeros(_END + 1, dtype=np.uint8)
    first = np.zeros(_END + 1, dtype=np.int64)
    length = np.ones(_END + 1, dtype=np.int64)
    long: list[int] = []
    for code in range(_END):
        character = chr(code)
        if DIGIT.match(character):
            script[code] = _IS_DIGIT
        elif LETTER.match(character):
            script[code] = _IS_LETTER
        if 0xD800 <= code < 0xE000 or not _is_settled(character):
            continue
        is_simple = not unicodedata.decomposition(character)
        plain = (character if is_simple else unicodedata.normalize("NFKC", guarded(character))).lower()
        if character.isspace() or plain.isspace():
            kind[code] = _BLANK
        elif len(plain) == 1 and plain.lower() == plain:
            kind[code], form[code] = _PLAIN, ord(plain)
        elif plain and not any(each.isspace() for each in plain):
            kind[code], first[code], length[code] = _EXPANDED, len(long), len(plain)
            long += map(ord, plain)
    for code in set(long):
        if kind[code] != _PLAIN or form[code] != code:  # would be changed again, or not at all
            kind[kind == _EXPANDED] = _mark_hard(kind, first, length, long, code)
    return _Table(kind, form, script, first, length, np.array(long, dtype=np.uint32))


def _mark_hard(kind: np.ndarray, first: np.ndarray, length: np.ndarray, long: Sequence[int], code: int) -> np.ndarray:
    expanded = np.flatnonzero(kind == _EXPANDED)
    holds = [code in long[first[each] : first[each] + length[each]] for each in expanded]
    return np.where(holds, _HARD, _EXPANDED).astype(np.uint8)


def _is_settled(character: str) -> bool:
    """Whether the form of a character is the same beside any other."""
    if character in "Σσς" or _composes(character):
        return False
    if not unicodedata.decomposition(character):
        return True
    return not _composes(unicodedata.normalize("NFKD", character)[0])


def _composes(character: str) -> bool:
    """Whether a character may melt into the one before it or change places with it: marks, Hangul vowels, finals."""
    is_mark = unicodedata.combining(character) or unicodedata.category(character) in ("Mc", "Mn")
    return bool(is_mark) or "\u1161" <= character <= "\u11ff"
