"""A key of the numbers that a text holds, in their order, for many texts at once.

A number is a run of digits with the signs before it and the points, commas and colons within: >=100, ~75, -5, 0.5,
12:30. Chinese numerals are one where a unit follows (三次), behind 第 and 分之 (第三腰椎, 百分之三十), and where
several stand together, one of them a power of ten (血压二百); 一般 holds no number. Roman numerals are one where two
letters stand together or a unit follows (ii型, v级, but x线 is none), signs also alone in brackets: (+).

Each character of a number is hashed with its rank among those of its text, and the hashes of a text are summed: two
texts share a key when their numbers are the same, and else with a chance of 2^-64.

Time and memory grow with the characters of the batch: 4 bytes each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from infra.code_points import code_points
from infra.compiled import compiled
from tasks.comparable import LETTER
from tasks.shingles import mix

SIGNS = "<>≤≥≦≧=≈~±+-\u2010\u2011\u2012\u2013\u2014\u2015−/"
NUMERALS = "零一二三四五六七八九十百千万两半"
POWERS = "十百千万"
UNITS = (
    "次天日周月年岁片粒丸支袋瓶滴例倍度级期型个枚剂类分秒时小克毫厘米升单公斤钱寸尺味服帖贴盒杯碗匙针指联价代线阶段"
    "区叶肋室房尖瓣腔胎产环氧磷硝侧成层"
)
ROMAN = "ivx"

_OTHER, _DIGIT, _SEPARATOR, _SIGN, _NUMERAL, _UNIT, _ROMAN, _LETTER, _NONE = range(9)
_FIRST, _SHARE, _OF = ord("第"), ord("分"), ord("之")
_OPENING, _CLOSING, _X = ord("("), ord(")"), ord("x")
_RANK = np.uint64(0x9E3779B97F4A7C15)


def number_keys(forms: Sequence[str]) -> np.ndarray:
    """uint64 (T,): a key of the numbers of each text in its comparable form."""
    points, ends = code_points(forms)
    keys = np.zeros(len(forms), dtype=np.uint64)
    _add_numbers(points, ends, *_tables(), keys)
    return keys


@compiled
def _add_numbers(
    points: np.ndarray, ends: np.ndarray, kinds: np.ndarray, is_power: np.ndarray, keys: np.ndarray
) -> None:
    for text in range(len(keys)):
        end, place, rank = ends[text + 1], ends[text], np.uint64(0)
        within = False  # whether the character before stands in a number that a digit may go on
        while place < end:
            kind = kinds[points[place]]
            stop = place + 1
            if kind in (_SIGN, _NUMERAL, _ROMAN):
                while stop < end and kinds[points[stop]] == kind:
                    stop += 1
                before = points[place - 1] if place > ends[text] else 0
                further = points[place - 2] if place > ends[text] + 1 else 0
                after = points[stop] if stop < end else 0
                follows = kinds[after] if stop < end else _NONE
                if kind == _SIGN:
                    counts = follows == _DIGIT or (before == _OPENING and after == _CLOSING)
                elif kind == _ROMAN:
                    alone = follows == _UNIT and points[place] != _X
                    counts = kinds[before] != _LETTER and follows != _LETTER and (stop - place > 1 or alone)
                else:
                    counts = follows == _UNIT or before == _FIRST or (before == _OF and further == _SHARE)
                    for character in range(place, stop if stop - place > 1 else place):
                        counts |= is_power[points[character]]
                begins, within = True, follows == _DIGIT and kind == _SIGN
            elif kind == _DIGIT:
                counts, begins, within = True, not within, True
            else:
                # A point parts no number that goes on behind it.
                counts = kind == _SEPARATOR and within and stop < end and kinds[points[stop]] == _DIGIT
                counts = counts and kinds[points[place - 1]] == _DIGIT
                begins, within = False, counts
            if counts:
                for character in range(place, stop):
                    starts = np.uint64(begins and character == place)
                    rank += np.uint64(1)
                    keys[text] += mix(mix((np.uint64(points[character]) << np.uint64(1)) | starts) + rank * _RANK)
            place = stop


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """uint8 (0x110000,): what each code point is in a number; bool (0x110000,): the powers of ten."""
    kinds, is_power = np.zeros(0x110000, dtype=np.uint8), np.zeros(0x110000, dtype=np.bool_)
    is_power[[ord(character) for character in POWERS]] = True
    kinds[[code for code in range(0x20000) if chr(code).isdecimal()]] = _DIGIT
    kinds[[code for code in range(0x10000) if LETTER.match(chr(code))]] = _LETTER
    sets = (".,:", _SEPARATOR), (SIGNS, _SIGN), (NUMERALS, _NUMERAL), (UNITS, _UNIT), (ROMAN, _ROMAN)
    for characters, kind in sets:
        kinds[[ord(character) for character in characters]] = kind
    return kinds, is_power
