"""Plain form of a text, in which overlaps are searched: letters and digits only, without width, case and accents.

Every character has a form of its own, whatever its neighbours: it is decomposed (NFKD), folded in case, and of the
result only letters and digits stay. Texts that NFKC makes equal have equal forms, and each character of a form is
traced to the character of the text that it comes from. A few characters become several (Ⅲ: iii, ½: 12), most become
one.

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
"""End of the code points that may be letters; those beyond have no form."""

_LONG = 1 << 31
"""Bit of an entry that is the number of a longer form."""


class PlainForms(NamedTuple):
    """Forms of texts, end to end."""

    points: np.ndarray
    """uint32: characters of the forms."""
    origins: np.ndarray
    """int64: place, in all texts end to end, of the character that each comes from."""
    starts: np.ndarray
    """int64: start of each text in `points`, and the end of the last."""


class _Table(NamedTuple):
    form: np.ndarray
    """uint32 by code point: its form; 0 for none; `_LONG` and a number for a longer one."""
    first: np.ndarray
    """int64: start of a longer form in `long`."""
    length: np.ndarray
    """int64: characters of a longer form."""
    long: np.ndarray
    """uint32: longer forms, end to end."""


def plain_forms(texts: Sequence[str]) -> PlainForms:
    """Return the plain forms of texts."""
    table = _table()
    codes, borders = code_points(texts)
    mapped = table.form[codes]
    origins = np.flatnonzero(mapped)
    points = mapped[origins]
    if (points & _LONG).any():
        points, origins = _spelled_out(points, origins, table)
    return PlainForms(points, origins, np.searchsorted(origins, borders))


def _spelled_out(points: np.ndarray, origins: np.ndarray, table: _Table) -> tuple[np.ndarray, np.ndarray]:
    """Replace the numbers of longer forms by their characters."""
    places = np.flatnonzero(points & _LONG)
    numbers = points[places] - _LONG
    counts = np.ones(len(points), dtype=np.int64)
    counts[places] = lengths = table.length[numbers]
    firsts = (np.cumsum(counts) - counts)[places]  # start of each longer form in the result
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
    """Return the form of one character."""
    if unicodedata.category(character) == "Lo" and not unicodedata.decomposition(character):
        # NFKD would split a Hangul syllable into its letters; it stays one character.
        return character
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(each for each in folded if unicodedata.category(each)[0] in "LN")
