"""A key of the numbers that a text holds, in their order, for many texts at once.

A number is a run of digits with the signs before it, the points, commas and colons within and the % behind: >=100,
~75, -5, 0.5, 12:30, 5%. Chinese numerals are one where a unit follows (三次, 两组), or a word of a range and another
numeral (三至五天), behind 第 and 分之 (第三腰椎, 百分之三十), and where several stand together, one of them a power of
ten (血压二百); 一般 and 一点 hold no number. Roman numerals are one where two letters stand together or a unit follows
(ii型, v级, but x线 is none).

Signs of a finding are a number too: alone in brackets, (+); an arrow, 白细胞↑; + and ± behind a word, 尿蛋白++; and -
behind a word and before none (a-b is none). A comparable form has no blank behind a sign, so that the - in
hbsag-hbeag+ may be a hyphen: the + tells how many such there were since the words began.

Each character of a number is hashed with its rank among those of its text, and the hashes of a text are summed: two
texts share a key when their numbers are the same, and else with a chance of 2^-64.

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
ARROWS, PLUSES, MINUSES = "↑↓", "+±", "-−"
LONGEST_FINDING = 4
"""Signs of a finding that stand together, ++++; of - only one does: -- is a dash, --- a line."""
PERCENT = "%‰"
NUMERALS = "零〇○一二三四五六七八九十百千万亿两半壹贰叁肆伍陆柒捌玖拾佰仟"
POWERS = "十百千万亿拾佰仟"
UNITS = (
    "次天日周月年岁片粒丸支袋瓶滴例倍度级期型个枚剂类分秒时小克毫厘米升单公斤钱寸尺味服帖贴盒杯碗匙针指联价代线阶段"
    "区叶肋室房尖瓣腔胎产环氧磷硝侧成层组名处种项人位条餐张根头只颗块双对口包付副勺顿遍回件管节排款点余多几"
)
LINKS = "至到或、点"
"""What stands in a range or a decimal number between two numerals; signs do too."""
ROMAN = "ivx"

_OTHER, _DIGIT, _SEPARATOR, _SIGN, _NUMERAL, _UNIT, _ROMAN, _LETTER, _PERCENT, _NONE = range(10)
_POWER, _LINK, _WORD, _ARROW, _PLUS, _MINUS = 1, 2, 4, 8, 16, 32
_FIRST, _SHARE, _OF, _ONE, _POINT = ord("第"), ord("分"), ord("之"), ord("一"), ord("点")
_OPENING, _CLOSING, _X = ord("("), ord(")"), ord("x")
_RANK = np.uint64(0x9E3779B97F4A7C15)


def number_keys(forms: Sequence[str]) -> np.ndarray:
    """uint64 (T,): a key of the numbers of each text in its comparable form."""
    points, ends = code_points(forms)
    keys = np.zeros(len(forms), dtype=np.uint64)
    _add_numbers(points, ends, *_tables(), keys)
    return keys


@compiled
def _add_numbers(points: np.ndarray, ends: np.ndarray, kinds: np.ndarray, traits: np.ndarray, keys: np.ndarray) -> None:
    for text in range(len(keys)):
        end, place, rank = ends[text + 1], ends[text], np.uint64(0)
        within = False  # whether the character before stands in a number that a digit may go on
        hyphens = np.uint64(0)  # of the words that stand together here
        while place < end:
            kind = kinds[points[place]]
            stop = place + 1
            told = np.uint64(0)  # what is hashed with the first character besides
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
                        trait, told = traits[points[place]], hyphens
                        behind_word = traits[before] & _WORD > 0 or before == _CLOSING
                        counts = trait & _ARROW > 0 or (behind_word and trait & _PLUS > 0)
                        if behind_word and trait & _MINUS > 0 and stop - place == 1:
                            counts = traits[after] & _WORD == 0
                            hyphens += np.uint64(1)
                elif kind == _ROMAN:
                    alone = follows == _UNIT and points[place] != _X
                    counts = kinds[before] != _LETTER and follows != _LETTER and (stop - place > 1 or alone)
                else:
                    counts = follows == _UNIT and not (
                        after == _POINT and points[place] == _ONE and stop - place == 1  # 一点: a little
                    )
                    counts |= before == _FIRST or (before == _OF and further == _SHARE)
                    if stop + 1 < end and kinds[points[stop + 1]] == _NUMERAL:
                        counts |= follows == _SIGN or traits[after] & _LINK > 0
                    for character in range(place, stop if stop - place > 1 else place):
                        counts |= traits[points[character]] & _POWER > 0
                begins, within = True, follows == _DIGIT and kind == _SIGN
            elif kind == _DIGIT:
                counts, begins, within = True, not within, True
            else:
                after_digit = within and kinds[points[place - 1]] == _DIGIT
                # A point parts no number that goes on behind it.
                goes_on = kind == _SEPARATOR and stop < end and kinds[points[stop]] == _DIGIT
                begins, within = False, after_digit and goes_on
                counts = within or (after_digit and kind == _PERCENT)
                if traits[points[place]] & _WORD == 0:
                    hyphens = np.uint64(0)
            if counts:
                for character in range(place, stop):
                    starts = np.uint64(begins and character == place)
                    rank += np.uint64(1)
                    value = (told << np.uint64(32)) | (np.uint64(points[character]) << np.uint64(1)) | starts
                    keys[text] += mix(mix(value) + rank * _RANK)
            place = stop


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """uint8 (0x110000,) both: what each code point is in a number, and its further traits in bits."""
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
