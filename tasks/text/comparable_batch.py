"""Comparable forms of many texts at once, equal to `tasks.text.comparable.comparable` and several times faster.

Characters are looked up in one table; most become one character, some (… ℃ ①) a few. A text with a character whose
form depends on its neighbours (a combining mark, a Greek sigma) is left to `comparable`.

Time and memory grow with the characters of the batch: about 30 bytes each.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled
from tasks.text.comparable import DIGIT, LETTER, comparable, guarded

_END = 0x20000
"""End of the table; codes beyond it (rare Chinese characters, some of them compatibility forms) share one row."""

_PLAIN, _BLANK, _EXPANDED, _HARD = range(4)
_NEITHER, _IS_DIGIT, _IS_LETTER = range(3)
_SPACE = ord(" ")


class _Table(NamedTuple):
    kind: np.ndarray
    """uint8: _PLAIN, _BLANK, _EXPANDED or _HARD."""
    form: np.ndarray
    """uint32: form of a plain character."""
    script: np.ndarray
    """uint8: _NEITHER, _IS_DIGIT or _IS_LETTER, between two of which a blank matters."""
    first: np.ndarray
    """int64: place in `long` where the form of an expanded character begins."""
    length: np.ndarray
    """int64: characters of its form."""
    long: np.ndarray
    """uint32: the forms, end to end."""


def comparables(texts: Sequence[str]) -> list[str]:
    """Return the `comparable` form of every text."""
    table = _table()
    points, ends = code_points(texts)
    room = int(table.length[np.minimum(points, _END)].sum())
    forms, borders = np.empty(room, dtype=np.uint32), np.zeros(len(ends), dtype=np.int64)
    is_hard = np.zeros(len(texts), dtype=np.bool_)
    _write_forms(points, ends, *table, forms, borders, is_hard)
    together = forms[: borders[-1]].tobytes().decode("utf-32-le")
    places = borders.tolist()
    found = [together[start:end] for start, end in itertools.pairwise(places)]
    for number in np.flatnonzero(is_hard).tolist():
        found[number] = comparable(texts[number])
    return found


@compiled
def _write_forms(
    points: np.ndarray,
    ends: np.ndarray,
    kind: np.ndarray,
    form: np.ndarray,
    script: np.ndarray,
    first: np.ndarray,
    length: np.ndarray,
    long: np.ndarray,
    forms: np.ndarray,
    borders: np.ndarray,
    is_hard: np.ndarray,
) -> None:
    """Fill in `forms`, end to end, `borders` and `is_hard`; a text that is left to `comparable` has no form."""
    size = 0
    for text in range(len(ends) - 1):
        start = size
        after_blank = False
        for place in range(ends[text], ends[text + 1]):
            code = min(points[place], _END)
            if kind[code] == _HARD:
                is_hard[text] = True
                size = start
                break
            if kind[code] == _BLANK:
                after_blank = size > start
                continue
            begins = form[code] if kind[code] == _PLAIN else long[first[code]]
            # A blank stays where nothing else separates two numbers or two words: 120 80, lung cancer
            if after_blank and script[begins] != _NEITHER and script[begins] == script[forms[size - 1]]:
                forms[size] = _SPACE
                size += 1
            after_blank = False
            forms[size] = begins
            size += 1
            for further in range(1, length[code]):
                forms[size] = long[first[code] + further]
                size += 1
        borders[text + 1] = size


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
        if max(map(ord, plain), default=0) >= _END:  # some compatibility forms: the table ends before the result
            continue
        if character.isspace() or plain.isspace():
            kind[code] = _BLANK
        elif len(plain) == 1 and plain.lower() == plain:
            kind[code], form[code] = _PLAIN, ord(plain)
        elif plain and not any(each.isspace() for each in plain):
            kind[code], first[code], length[code] = _EXPANDED, len(long), len(plain)
            long += map(ord, plain)
    for code in set(long):
        if kind[code] != _PLAIN or form[code] != code:  # the form of the form would differ from it
            kind[kind == _EXPANDED] = _mark_hard(kind, first, length, long, code)
    return _Table(kind, form, script, first, length, np.array(long, dtype=np.uint32))


def _mark_hard(kind: np.ndarray, first: np.ndarray, length: np.ndarray, long: Sequence[int], code: int) -> np.ndarray:
    expanded = np.flatnonzero(kind == _EXPANDED)
    holds = [code in long[first[each] : first[each] + length[each]] for each in expanded]
    return np.where(holds, _HARD, _EXPANDED).astype(np.uint8)


def _is_settled(character: str) -> bool:
    """Return True if the form of a character is the same beside any other."""
    if character in "Σσς" or _composes(character):
        return False
    if not unicodedata.decomposition(character):
        return True
    return not _composes(unicodedata.normalize("NFKD", character)[0])


def _composes(character: str) -> bool:
    """Return True if a character may combine or change places with the one before: marks, Hangul vowels and finals."""
    is_mark = unicodedata.combining(character) or unicodedata.category(character) in ("Mc", "Mn")
    return bool(is_mark) or "\u1161" <= character <= "\u11ff"
