"""A first glance at a text, in one pass: which searches for identifiers are worth their time.

Most texts hold nothing that a pattern could match. Time grows with the characters.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled
from tasks.deidentify.forms.plain import TRADITIONAL

NET = 1
"""The text may hold an @, a :// or a www."""
NUMBERS = 2
"""The text holds a run of digits, or of digits and stars, long enough for a number of a person."""
ODD_FORMS = 4
"""The text holds full-width letters or digits, traditional characters, or half of a surrogate pair."""

LEAST_RUN, LEAST_DIGITS = 6, 4
"""Least number of characters in such a run, unless it begins with 0, and of digits and stars among them."""

_ZERO = ord("0")
_AT, _COLON, _SLASH, _W, _DIGIT, _IN_RUN, _ODD = 1, 2, 4, 8, 16, 32, 64


def suspicions_of(text: str) -> int:
    """Return the bits `NET`, `NUMBERS` and `ODD_FORMS` of a text."""
    return int(_suspicions(points_of(text), _classes()))


def all_suspicions(texts: Sequence[str]) -> np.ndarray:
    """Return `suspicions_of` each text: uint8 (T,)."""
    points, ends = code_points(texts)
    found = np.zeros(len(texts), dtype=np.uint8)
    _gather(points, ends, _classes(), found)
    return found


@compiled
def _gather(points: np.ndarray, ends: np.ndarray, classes: np.ndarray, found: np.ndarray) -> None:
    for text in range(len(found)):
        found[text] = _suspicions(points[ends[text] : ends[text + 1]], classes)


@compiled
def _suspicions(points: np.ndarray, classes: np.ndarray) -> int:
    found, run, digits, before, from_zero = 0, 0, 0, 0, False
    for point in points:
        kind = classes[point]
        # ":/" and "ww" are enough: the glance may be wrong, but only by looking too often
        if kind & _AT or (kind & _SLASH and before & _COLON) or (kind & _W and before & _W):
            found |= NET
        if kind & _ODD:
            found |= ODD_FORMS
        if kind & _IN_RUN:
            if run == 0:
                from_zero = point == _ZERO
            run += 1
            digits += (kind & _DIGIT) != 0
            if digits >= LEAST_DIGITS and (run >= LEAST_RUN or from_zero):
                found |= NUMBERS
        else:
            run, digits = 0, 0
        before = kind
    return found


@functools.cache
def _classes() -> np.ndarray:
    """Return the classes of each code point as bits: uint8 (0x110000,)."""
    classes = np.zeros(0x110000, dtype=np.uint8)
    wide = [chr(code) for first, last in ("０９", "ＡＺ", "ａｚ") for code in range(ord(first), ord(last) + 1)]
    for characters, kind in (
        ("@", _AT),
        (":", _COLON),
        ("/", _SLASH),
        ("wW", _W),
        ("0123456789*", _DIGIT),
        ("0123456789*+. -–—－()（）xX", _IN_RUN),
        ("".join(wide) + "＠＋－．＊／＿" + "".join(TRADITIONAL), _ODD),
    ):
        classes[list(map(ord, characters))] |= np.uint8(kind)
    classes[0xD800:0xE000] |= np.uint8(_ODD)
    return classes
