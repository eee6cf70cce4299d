"""The form in which overlaps are looked for: letters and digits only, where width, case and accents do not matter.

Every character has a form of its own, whatever stands beside it: it is decomposed (NFKD), folded in case, and of
the outcome letters and digits stay. Texts that NFKC makes equal are equal here, and each character of a form
knows which character of the text it comes from. A few characters become several (Ⅲ: iii, ½: 12), most become one.

Time and memory grow with the characters of a batch: about 40 bytes each.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from infra.arrays.code_points import code_points

_LAST_LETTER = 0x323B0
"""No letter lies beyond; the rest of the code points has no form."""

_LONG = 1 << 31
"""Marks an entry that is the place of a longer form."""


class PlainForms(NamedTuple):
    """The forms of some texts, end to end."""

    points: np.ndarray
    """uint32: their characters."""
    origins: np.ndarray
    """int64: the character, counted over all texts end to end, that each comes from."""
    starts: np.ndarray
    """int64: where in `points` each text begins, and where the last ends."""


class _Table(NamedTuple):
    form: np.ndarray
    """uint32 by code point: its form; 0 for none; `_LONG` and a number for a longer one."""
    first: np.ndarray
    """int64: where a longer form begins in `long`."""
    length: np.ndarray
    """int64: its characters."""
    long: np.ndarray
    """uint32: the longer forms, end to end."""


def plain_forms(texts: Sequence[str]) -> PlainForms:
    """The forms of texts."""
    table = _table()
    codes, borders = code_points(texts)
    mapped = table.form[codes]
    origins = np.flatnonzero(mapped)
    points = mapped[origins]
    if (points & _LONG).any():
        points, origins = _spelled_out(points, origins, table)
    return PlainForms(points, origins, np.searchsorted(origins, borders))


def _spelled_out(points: np.ndarray, origins: np.ndarray, table: _Table) -> tuple[np.ndarray, np.ndarray]:
    """Replace the longer forms by their characters."""
    places = np.flatnonzero(points & _LONG)
    numbers = points[places] - _LONG
    counts = np.ones(len(points), dtype=np.int64)
    counts[places] = lengths = table.length[numbers]
    firsts = (np.cumsum(counts) - counts)[places]  # where each longer form begins in the outcome
    spelled, spelled_origins = np.repeat(points, counts), np.repeat(origins, counts)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    spelled[np.repeat(firsts, lengths) + within] = table.long[np.repeat(table.first[numbers], lengths) + within]
    return spelled, spelled_origins


@functools.cache
def _table() -> _Table:
    form = np.zeros(0x110000, dtype=np.uint32)
    first: list[int] = []
    length: list[int] = []
    long: list[int] = []
    for code in range(_LAST_LETTER):
        plain = _plain(chr(code))
        if len(plain) == 1:
            form[code] = ord(plain)
        elif plain:
            form[code] = _LONG + len(first)
            first.append(len(long))
            length.append(len(plain))
            long.extend(map(ord, plain))
    return _Table(form, np.array(first), np.array(length), np.array(long, dtype=np.uint32))


def _plain(character: str) -> str:
    """The form of one character."""
    if unicodedata.category(character) == "Lo" and not unicodedata.decomposition(character):
        # Hangul decomposes by rule: a syllable stays one character.
        return character
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(each for each in folded if unicodedata.category(each)[0] in "LN")
