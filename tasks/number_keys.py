"""A key of the numbers that a text holds, in their order, for many texts at once.

A number is a run of digits with the signs before it and the points, commas and colons within: >=100, ~75, -5, 0.5,
12:30. Chinese numerals are one where a unit follows: 三 of 三次; 一般 holds no number.

Texts are laid end to end as code points. The characters of numbers are found by what stands beside them, each is
hashed with its rank among those of its text, and the hashes of a text are summed: two texts share a key when their
numbers are the same, and else with a chance of 2^-64.

Time and memory grow with the characters of the batch: about 30 bytes each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tasks.shingles import mix

SIGNS = "<>≤≥≦≧=≈~±+-\u2010\u2011\u2012\u2013\u2014\u2015−/"
NUMERALS = "零一二三四五六七八九十百千万两半"
UNITS = "次天日周月年岁片粒丸支袋瓶滴例倍度级期型个枚剂类分秒时小克毫厘米升单"

_OTHER, _DIGIT, _SEPARATOR, _SIGN, _NUMERAL, _UNIT, _NONE = range(7)
_RANK = np.uint64(0x9E3779B97F4A7C15)


def number_keys(forms: Sequence[str]) -> np.ndarray:
    """uint64 (T,): a key of the numbers of each text in its comparable form."""
    borders = np.cumsum([0, *(len(form) + 1 for form in forms)])
    points = np.frombuffer("\n".join([*forms, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    begins, inside = _tokens(_kinds()[points])
    places = np.flatnonzero(inside)  # none of them a \n, which parts the texts
    first = np.searchsorted(places, borders)
    rank = np.arange(len(places)) - np.repeat(first[:-1], np.diff(first))
    hashes = mix((points[places].astype(np.uint64) << np.uint64(1)) | begins[places])
    sums = np.concatenate([[np.uint64(0)], np.cumsum(mix(hashes + (rank + 1).astype(np.uint64) * _RANK))])
    keys: np.ndarray = np.diff(sums[first])
    return keys


def _tokens(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which characters begin a number, and which stand in one: two arrays of bool."""
    before = np.concatenate([[_NONE], kinds])[: len(kinds)]
    after = np.concatenate([kinds, [_NONE]])[1:]
    digit = kinds == _DIGIT
    inside = digit | ((kinds == _SEPARATOR) & (before == _DIGIT) & (after == _DIGIT))
    # A run of signs counts where a digit follows it, a run of numerals where a unit does.
    borders = np.flatnonzero(kinds != before)
    run_kinds = kinds[borders]
    next_kinds = np.append(run_kinds[1:], _NONE)[: len(run_kinds)]
    counts = ((run_kinds == _SIGN) & (next_kinds == _DIGIT)) | ((run_kinds == _NUMERAL) & (next_kinds == _UNIT))
    counting = np.flatnonzero(counts)
    ends = np.append(borders, len(kinds))[1:]
    sizes = ends[counting] - borders[counting]
    spread = np.repeat(borders[counting] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    inside[spread] = True
    goes_on = digit & ((before == _DIGIT) | (before == _SIGN) | (before == _SEPARATOR))
    goes_on &= np.concatenate([[False], inside])[: len(kinds)]
    goes_on |= kinds == _SEPARATOR
    goes_on |= (kinds == before) & ((kinds == _SIGN) | (kinds == _NUMERAL))
    return inside & ~goes_on, inside


@functools.cache
def _kinds() -> np.ndarray:
    """uint8 (0x110000,): what each code point is in a number."""
    kinds = np.zeros(0x110000, dtype=np.uint8)
    kinds[[code for code in range(0x20000) if chr(code).isdecimal()]] = _DIGIT
    for characters, kind in ((".,:", _SEPARATOR), (SIGNS, _SIGN), (NUMERALS, _NUMERAL), (UNITS, _UNIT)):
        kinds[[ord(character) for character in characters]] = kind
    return kinds
