"""Tokens that the recogniser reads: Chinese characters, runs of digits, Latin words, runs of blanks, placeholders.

What rules replaced or covered, 〔姓名〕 or 〔〓〓〕, becomes a single sign first (`shortened`): a text looks the same
before and after replacement.
Time and memory grow with the characters.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np
import rjieba

from infra.arrays.code_points import points_of
from infra.arrays.compiled import compiled

(EDGE, PLACEHOLDER, BLANK, WIDE_BLANK, LINE_END, DIGITS_2, DIGITS_4, DIGITS_9, DIGITS_MORE) = range(9)
(LETTER, CAPITALS_3, CAPITALS, CAPITALISED, SMALL, MIXED) = range(9, 15)
"""Symbols of tokens that are no single sign; every other symbol is a code point."""

_OPEN = ord("〔")
# matches: "〔姓名〕", "〔〓〓〕", "〔〕"
# not: "〔见\n〕", "〔", "姓名"
_PLACEHOLDER = re.compile(r"〔(?:〓*+|[^〔〕\n]{1,12}+)〕")
_TAGS = {
    tag: number
    for number, tag in enumerate(
        [
            "x",
            "n",
            "v",
            "a",
            "d",
            "m",
            "q",
            "r",
            "p",
            "c",
            "u",
            "f",
            "t",
            "b",
            "s",
            "z",
            "k",
            "h",
            "o",
            "e",
            "y",
            "l",
            "i",
            "j",
            "g",
            "nr",
            "ns",
            "nt",
            "nz",
            "eng",
        ],
        1,
    )
}


_MOST_WORDS = 100_000
"""Words of which lengths and tags are kept in memory."""


class Tokens(NamedTuple):
    """Tokens of a text: what each is, where it begins, and the word of jieba's dictionary that holds it."""

    symbols: np.ndarray
    """Code point or one of the symbols above, int32 (N,)."""
    hashes: np.ndarray
    """Hash of the letters of a Latin word, otherwise 0, uint32 (N,)."""
    starts: np.ndarray
    """First character of each token and the end of the last, int32 (N + 1,)."""
    words: np.ndarray
    """Word that holds each token, int32 (N,)."""
    word_hashes: np.ndarray
    """Hash of each word, uint32 (W,)."""
    word_starts: np.ndarray
    """First character of each word and the end of the last, int32 (W + 1,)."""
    word_tags: np.ndarray
    """Class of each word, uint8 (W,)."""


def shortened(text: str) -> tuple[str, np.ndarray]:
    """Return a text in which each placeholder is 〔, and where its characters and its end were, int64 (N + 1,)."""
    short = _PLACEHOLDER.sub("〔", text) if "〔" in text else text
    if len(short) == len(text):
        return text, np.arange(len(text) + 1)
    lengths = np.ones(len(short), dtype=np.int64)
    taken = 0
    for mark in _PLACEHOLDER.finditer(text):
        lengths[mark.start() - taken] = mark.end() - mark.start()
        taken += mark.end() - mark.start() - 1
    return short, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def tokens_of(text: str) -> Tokens:
    """Return the tokens of a text without lone surrogates, whose placeholders are 〔 (see `shortened`)."""
    points = points_of(text)
    cut = rjieba.cut(text, False)
    known = _known_words()
    read = np.fromiter(map(known.__getitem__, cut), np.int64, len(cut))
    if len(known) > _MOST_WORDS:
        known.clear()
    tags = (read & 0xFF).astype(np.uint8)
    word_starts = np.zeros(len(cut) + 1, dtype=np.int32)
    np.cumsum(read >> 8, out=word_starts[1:])
    symbols = np.empty(len(points), dtype=np.int32)
    hashes = np.empty(len(points), dtype=np.uint32)
    starts = np.empty(len(points) + 1, dtype=np.int32)
    words = np.empty(len(points), dtype=np.int32)
    word_hashes = np.empty(len(cut), dtype=np.uint32)
    count = _read(points, word_starts, symbols, hashes, starts, words, word_hashes)
    return Tokens(
        symbols[:count], hashes[:count], starts[: count + 1], words[:count], word_hashes, word_starts, tags
    )  # fmt: skip


class _Words(dict[str, int]):
    """Words with their lengths, shifted by 8 bits, and the numbers of their tags; a word is looked up once."""

    def __missing__(self, word: str) -> int:
        self[word] = len(word) << 8 | _number_of(rjieba.tag(word, False)[0][1])
        return self[word]


@functools.cache
def _known_words() -> _Words:
    return _Words()


def _number_of(tag: str) -> int:
    """Return the number of a tag of jieba; tags such as nrfg, vn and ad count as their beginnings."""
    return _TAGS.get(tag) or _TAGS.get(tag[:2]) or _TAGS.get(tag[:1]) or 1


@compiled
def _read(
    points: np.ndarray,
    word_starts: np.ndarray,
    symbols: np.ndarray,
    hashes: np.ndarray,
    starts: np.ndarray,
    words: np.ndarray,
    word_hashes: np.ndarray,
) -> int:
    """Write the tokens and return their number."""
    for word in range(len(word_hashes)):
        value = np.uint64(2166136261)
        for at in range(word_starts[word], word_starts[word + 1]):
            value = ((value ^ np.uint64(points[at])) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
        word_hashes[word] = np.uint32(value)
    count, at, word, length = 0, 0, 0, len(points)
    while at < length:
        point = points[at]
        end, symbol, letters = at + 1, int(point), np.uint64(0)
        if point == _OPEN:
            symbol = PLACEHOLDER
        elif _is_digit(point):
            while end < length and (
                _is_digit(points[end]) or (points[end] == 46 and end + 1 < length and _is_digit(points[end + 1]))
            ):
                end += 1
            many = end - at
            symbol = DIGITS_2 if many <= 2 else DIGITS_4 if many <= 4 else DIGITS_9 if many <= 9 else DIGITS_MORE
        elif _is_letter(point):
            capitals = 0
            while end <= length:
                here = points[end - 1]
                capitals += 65 <= here <= 90
                small = here + 32 if 65 <= here <= 90 else here
                letters = ((letters ^ np.uint64(small)) * np.uint64(16777619) + np.uint64(97)) & np.uint64(0xFFFFFFFF)
                if end == length or not _is_letter(points[end]):
                    break
                end += 1
            many = end - at
            first_is_capital = 65 <= point <= 90
            if many == 1:
                symbol = LETTER
            elif capitals == many:
                symbol = CAPITALS_3 if many <= 3 else CAPITALS
            elif capitals == 0:
                symbol = SMALL
            else:
                symbol = CAPITALISED if capitals == 1 and first_is_capital else MIXED
        elif _is_blank(point):
            while end < length and _is_blank(points[end]):
                end += 1
            symbol = BLANK if end - at == 1 and point == 32 else WIDE_BLANK
        elif point == 10 or point == 13:
            symbol = LINE_END
        elif point == 44 or point == 58 or point == 59 or point == 40 or point == 41 or point == 33 or point == 63:
            symbol = int(point) + 0xFEE0  # ( as （
        while word + 1 < len(word_hashes) and word_starts[word + 1] <= at:
            word += 1
        symbols[count], hashes[count], starts[count], words[count] = symbol, np.uint32(letters), at, word
        count += 1
        at = end
    starts[count] = length
    return count


@compiled
def _is_digit(point: int) -> bool:
    return 48 <= point <= 57


@compiled
def _is_letter(point: int) -> bool:
    if point >= 192:
        is_latin = (point < 592 and point != 215 and point != 247) or 0x1E00 <= point < 0x1F00  # é, ễ
        return is_latin or 0x400 <= point < 0x530
    return 65 <= point <= 90 or 97 <= point <= 122


@compiled
def _is_blank(point: int) -> bool:
    return point == 32 or point == 9 or point == 0x3000 or point == 0xA0
