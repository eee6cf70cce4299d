"""Surface forms: the form in which names and texts are compared, and the places where a name may begin or end.

Every character is normalised by itself: numerals such as Ⅱ and ❶ become digits; full-width, enclosed, squared, raised
and lowered characters become plain ones, all in lower case; invisible characters are removed.
Accented letters are decomposed (NFKD), so that it does not matter how they were typed. Brackets of all kinds are
unified, and so are dashes, middle dots and tildes (kg/names.py). The result for a character does not depend on its
neighbours, so each character of a form has one place in the text.

A name cannot begin or end inside a run of letters (Latin, Greek, Cyrillic), digits and marks, nor inside the form of a
single character (㈠ is compared as (一)).

Time and memory grow with the characters: about 16 ns and 32 bytes each. The tables take 8 MB and are filled once, in
0.2 s.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import regex

from kg.names import VARIANTS

LAST = 0x10FFFF
"""The highest code point; a larger number in the table marks forms of several characters or none."""

SEVERAL = LAST + 1

NUMERALS = frozenset((*range(0x2160, 0x2180), *range(0x2776, 0x2794), *range(0x24EB, 0x2500), 0x1F10B, 0x1F10C))
"""Code points of Roman numerals and filled or doubly circled numbers: NFKD turns them into letters or keeps them."""

UNIFIED = {variant: plain for plain in "()-·~" for variant in VARIANTS[plain]}
"""Without the variants of a comma, because 、 separates names in a text, and of quotation marks, which end words."""

_UNIFY = str.maketrans(UNIFIED)

SELECTORS = frozenset((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
"""Code points that choose a variant of the character before them."""

SURROGATES = range(0xD800, 0xE000)

LINE_ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

STAY = range(0x30000, 0xE0000)
"""Han characters without another form, and unassigned code points."""

PRIVATE = range(0xF0000, LAST + 1)
"""The private planes; like all private characters they are removed."""

_RUN = regex.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}\p{M}]")


class SurfaceForms(NamedTuple):
    """Forms of some texts, end to end, with a line end after each."""

    points: np.ndarray
    """uint32 (n,): characters of the forms."""
    borders: np.ndarray
    """bool (n + 1,): whether a name may begin before a character, or end there."""
    sources: np.ndarray | None
    """int64 (n,): place of each character in the original texts, joined likewise; None if all places are unchanged."""


def surface_forms(texts: Sequence[str]) -> SurfaceForms:
    """Return the forms of texts. A lone surrogate counts as U+FFFD."""
    single, several = _table()
    points = np.frombuffer("\n".join([*texts, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    forms = single[points]
    places = np.flatnonzero(forms == SEVERAL)
    sources = None
    if len(places):
        forms, sources = _expanded(forms, places, [several.get(code, "") for code in points[places].tolist()])
    inside = np.zeros(len(forms) + 1, dtype=bool)
    in_run = _in_run()[forms]
    np.logical_and(in_run[1:], in_run[:-1], out=inside[1:-1])
    if sources is not None:
        inside[1:-1] |= sources[1:] == sources[:-1]
    return SurfaceForms(forms, ~inside, sources)


def forms_of_names(names: Iterable[str]) -> list[str]:
    """Return the form of each name, without surrounding blanks; a line end inside becomes a blank."""
    lines = [" ".join(name.splitlines()) for name in names]
    text = surface_forms(lines).points.tobytes().decode("utf-32-le")
    return [form.strip(" ") for form in text.split("\n")[:-1]]


def _expanded(forms: np.ndarray, places: np.ndarray, becomes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Insert the forms of some places, of no or several characters; also returns the place each came from."""
    counts = np.ones(len(forms), dtype=np.int64)
    counts[places] = list(map(len, becomes))
    sources = np.repeat(np.arange(len(forms)), counts)
    grown = forms[sources]
    grown[grown == SEVERAL] = np.frombuffer("".join(becomes).encode("utf-32-le"), dtype="<u4")
    return grown, sources


@functools.cache
def _table() -> tuple[np.ndarray, dict[int, str]]:
    """Return the form of each code point, uint32 (0x110000,), and the forms of those marked `SEVERAL`.

    A marked code point without a form is removed.
    """
    single = np.arange(LAST + 1, dtype=np.uint32)
    single[SURROGATES.start : SURROGATES.stop] = 0xFFFD
    single[PRIVATE.start :] = SEVERAL
    several: dict[int, str] = {}
    codes = (*range(SURROGATES.start), *range(SURROGATES.stop, STAY.start), *range(STAY.stop, PRIVATE.start))
    for code, form in _forms(map(chr, codes)).items():
        single[code] = ord(form) if len(form) == 1 else SEVERAL
        if len(form) != 1:
            several[code] = form
    return single, several


def _forms(characters: Iterable[str]) -> dict[int, str]:
    """Return the form of each character by its code point."""
    forms: dict[int, str] = {}
    others = []
    for character in characters:
        special = _special_form(character)
        if special is None:
            others.append(character)
        else:
            forms[ord(character)] = special
    # A line end between characters keeps them apart: they neither compose nor decide about each other's case.
    joined = unicodedata.normalize("NFKD", "\n".join(others)).lower().translate(_UNIFY)
    return forms | dict(zip(map(ord, others), joined.split("\n"), strict=True))


def _special_form(character: str) -> str | None:
    """Return the form of a numeral, a blank or an invisible character; None for any other."""
    if ord(character) in NUMERALS:
        return str(int(unicodedata.numeric(character)))
    if character.isspace():
        return "\n" if character in "\n" + LINE_ENDS else " "
    if unicodedata.category(character) in ("Cc", "Cf", "Co") or ord(character) in SELECTORS:
        return ""
    return None


@functools.cache
def _in_run() -> np.ndarray:
    """Return which characters belong to runs inside which no name begins or ends: bool (0x110000,)."""
    codes = np.arange(STAY.start, dtype="<u4")  # there are none beyond
    codes[SURROGATES.start : SURROGATES.stop] = 0
    characters = codes.tobytes().decode("utf-32-le")
    found = np.zeros(LAST + 1, dtype=bool)
    found[list(map(ord, _RUN.findall(characters)))] = True
    return found
