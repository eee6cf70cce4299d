"""Keys of the numbers that texts hold, in their order, for many texts at once.

A number is a run of digits with the signs before it, the points, commas and colons within it and the % behind it:
>=100, ~75, -5, 0.5, 12:30, 5%.

Chinese numerals are a number in four cases: a unit follows (三次, 两组); a word of a range and another numeral follow
(三至五天); 第 or 分之 comes before (第三腰椎, 百分之三十); or there are several, one of them a power of ten (血压二百).
一般 and 一点 hold no number. Roman numerals are a number where there are two letters or a unit follows (ii型, v级, but
not x线).

Signs of a finding count as numbers too: a sign alone in brackets, (+); an arrow, 白细胞↑; + and ± behind a word,
尿蛋白++; and - behind a word unless another word follows (not in a-b). A comparable form has no blank behind a sign,
so the - in hbsag-hbeag+ may be a finding or a hyphen. The + is therefore hashed with the number of such signs since
the words began.

Each character of a number is hashed with its rank among those of its text, and the hashes of a text are summed. Two
texts share a key when their numbers are the same, and otherwise with a chance of 2^-64.

Time and memory grow with the characters of the batch: 4 bytes each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled
from tasks.deduplicate.shingles import mix
from tasks.text.comparable import LETTER

SIGNS = "<>≤≥≦≧=≈~±+-\u2010\u2011\u2012\u2013\u2014\u2015−/↑↓"
"""Signs that belong to a number that follows them, or are a finding."""
ARROWS, PLUSES, MINUSES = "↑↓", "+±", "-−"
LONGEST_FINDING = 4
"""Largest number of signs that are one finding (++++). Of - there is only one: -- is a dash, --- a line."""
PERCENT = "%‰"
NUMERALS = "零〇○一二三四五六七八九十百千万亿两半壹贰叁肆伍陆柒捌玖拾佰仟"
"""Chinese numerals."""
POWERS = "十百千万亿拾佰仟"
"""Powers of ten among them."""
UNITS = (
    "次天日周月年岁片粒丸支袋瓶滴例倍度级期型个枚剂类分秒时小克毫厘米升单公斤钱寸尺味服帖贴盒杯碗匙针指联价代线阶段"
    "区叶肋室房尖瓣腔胎产环氧磷硝侧成层组名处种项人位条餐张根头只颗块双对口包付副勺顿遍回件管节排款点余多几"
)
"""Characters that make a number of the numerals before them."""
LINKS = "至到或、点"
"""Characters between two numerals of a range or a decimal number; signs may stand there too."""
ROMAN = "ivx"
"""Letters of Roman numerals up to 39, in lower case as comparable forms are."""

_OTHER, _DIGIT, _SEPARATOR, _SIGN, _NUMERAL, _UNIT, _ROMAN, _LETTER, _PERCENT, _NONE = range(10)
"""Kind of a character: each has one."""
_POWER, _LINK, _WORD, _ARROW, _PLUS, _MINUS = 1, 2, 4, 8, 16, 32
"""Traits of a character, as bits: each may have several."""
_FIRST, _SHARE, _OF, _ONE, _POINT = ord("第"), ord("分"), ord("之"), ord("一"), ord("点")
_OPENING, _CLOSING, _X = ord("("), ord(")"), ord("x")
_RANK = np.uint64(0x9E3779B97F4A7C15)


def number_keys(forms: Sequence[str]) -> np.ndarray:
    """Return a key of the numbers of each text, which is in its comparable form: uint64 (T,)."""
    points, ends = code_points(forms)
    keys = np.zeros(len(forms), dtype=np.uint64)
    _add_numbers(points, ends, *_tables(), keys)
    return keys


@compiled
def _add_numbers(points: np.ndarray, ends: np.ndarray, kinds: np.ndarray, traits: np.ndarray, keys: np.ndarray) -> None:
    for text in range(len(keys)):
        end, place, rank = ends[text + 1], ends[text], np.uint64(0)
        within = False  # the character before is in a number that a digit may continue
        hyphens = np.uint64(0)  # signs so far that may be hyphens of the words that are joined here
        while place < end:
            kind = kinds[points[place]]
            stop = place + 1
            count_before = np.uint64(0)  # hyphens that are hashed with the first character
            if kind in (_SIGN, _NUMERAL, _ROMAN):
                while stop < end and kinds[points[stop]] == kind:
                    stop += 1
                before = points[place - 1] if place > ends[text] else 0
                further = points[place - 2] if place > ends[text] + 1 else 0
                after = points[stop] if stop < end else 0
                follows = kinds[after] if stop < end else _NONE
                if kind == _SIGN:
                    counts = follows == _DIGIT or (before == _OPENING and after == _CLOSING)
                    if not counts and stop - place <= LONGEST_FINDING:
                        trait, count_before = traits[points[place]], hyphens
                        behind_word = traits[before] & _WORD > 0 or before == _CLOSING
                        counts = trait & _ARROW > 0 or (behind_word and trait & _PLUS > 0)
                        if behind_word and trait & _MINUS > 0 and stop - place == 1:
                            counts = traits[after] & _WORD == 0
                            hyphens += np.uint64(1)
                elif kind == _ROMAN:
                    alone = follows == _UNIT and points[place] != _X
                    # Letters around them make a word of them: hiv, vitamin
                    counts = kinds[before] != _LETTER and follows != _LETTER and (stop - place > 1 or alone)
                else:
                    counts = follows == _UNIT and not (
                        after == _POINT and points[place] == _ONE and stop - place == 1  # 一点: a little
                    )
                    counts |= before == _FIRST or (before == _OF and further == _SHARE)
                    if stop + 1 < end and kinds[points[stop + 1]] == _NUMERAL:  # 三至五天, 三-五天
                        counts |= follows == _SIGN or traits[after] & _LINK > 0
                    for character in range(place, stop if stop - place > 1 else place):  # 二百, not 百
                        counts |= traits[points[character]] & _POWER > 0
                begins, within = True, follows == _DIGIT and kind == _SIGN
            elif kind == _DIGIT:
                counts, begins, within = True, not within, True
            else:
                after_digit = within and kinds[points[place - 1]] == _DIGIT
                # The point in 0.5 is part of the number, that in 0. is not.
                continues = kind == _SEPARATOR and stop < end and kinds[points[stop]] == _DIGIT
                begins, within = False, after_digit and continues
                counts = within or (after_digit and kind == _PERCENT)
                if traits[points[place]] & _WORD == 0:
                    hyphens = np.uint64(0)
            if counts:
                for character in range(place, stop):
                    starts = np.uint64(begins and character == place)
                    rank += np.uint64(1)
                    # `starts` keeps 1 23 and 12 3 apart.
                    value = (count_before << np.uint64(32)) | (np.uint64(points[character]) << np.uint64(1)) | starts
                    keys[text] += mix(mix(value) + rank * _RANK)
            place = stop


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Return the kind of each code point and its traits as bits: both uint8 (0x110000,)."""
    kinds, traits = np.zeros(0x110000, dtype=np.uint8), np.zeros(0x110000, dtype=np.uint8)
    kinds[[code for code in range(0x20000) if chr(code).isdecimal()]] = _DIGIT
    kinds[[code for code in range(0x10000) if LETTER.match(chr(code))]] = _LETTER
    for characters, kind in (
        (".,:", _SEPARATOR), (SIGNS, _SIGN), (NUMERALS, _NUMERAL), (UNITS, _UNIT), (ROMAN, _ROMAN), (PERCENT, _PERCENT)
    ):  # fmt: skip
        kinds[[ord(character) for character in characters]] = kind
    traits[[code for code in range(0x32000) if chr(code).isalnum()]] = _WORD
    sets = (POWERS, _POWER), (LINKS, _LINK), (ARROWS, _ARROW), (PLUSES, _PLUS), (MINUSES, _MINUS)
    for characters, trait in sets:
        traits[[ord(character) for character in characters]] |= np.uint8(trait)
    return kinds, traits
