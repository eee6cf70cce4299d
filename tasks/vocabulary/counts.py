"""Word counts, equal to those of `models.tokenizer.wordpiece.split_words` but some twenty times faster.

Most characters of a Chinese text are words of their own, so that a histogram of code points gives most counts. Only
each distinct run of letters and each distinct character is normalised, once. A text that contains a character whose
form depends on its neighbours (a combining mark, a numeral beside a number) is left to `split_words`.

Time grows with the characters, memory with the distinct words and with one batch, about 25 bytes per character.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import regex

from infra.arrays.batching import batches_of
from models.tokenizer.character_table import NUMBER, NUMERAL, forms_of
from models.tokenizer.normal_form import normalise
from models.tokenizer.wordpiece import WORD, split_words

CHARACTERS_AT_ONCE = 1 << 20
"""Most characters of a batch; a longer text is a batch of its own."""

_ALONE, _BLANK, _RUN, _HARD, _NUMERAL = range(5)
"""Kinds of code points: a word of its own, between words, part of a run, form depends on the neighbours, a word of its
own if no number is beside it."""

_END = 0x40000
"""Code points from here on are left to `split_words`."""

_WORD = regex.compile(WORD)
_MAYBE_NUMBER = regex.compile(r"[\p{N}.]")
"""A number or a point: `Ⅱ`, `.` or the `2` in the form of ₂; not `,`."""
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: U+D83D."""


def count_words_of(texts: Iterable[str]) -> Counter[str]:
    """Return the number of occurrences of each word in some texts; a lone surrogate counts as a blank."""
    alone = np.zeros(0x110000, dtype=np.int64)
    runs: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for batch in batches_of(texts, CHARACTERS_AT_ONCE):
        for text in _count_batch(batch, alone, runs):
            words.update(split_words(_SURROGATE.sub(" ", text)))
    for code in np.flatnonzero(alone).tolist():
        _add(words, chr(code), int(alone[code]))
    for run, count in runs.items():
        _add(words, run, count)
    return words


def _add(words: Counter[str], piece: str, count: int) -> None:
    for word in split_words(piece):
        words[word] += count


def _count_batch(texts: Sequence[str], alone: np.ndarray, runs: Counter[str]) -> list[str]:
    """Add the characters and the runs, not normalised, of all texts but the hard ones, and return these."""
    points, kinds = _laid_out(texts)
    hard: list[str] = []
    places = _hard_places(points, kinds)
    if len(places):
        starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
        owners = set((np.searchsorted(starts, places, side="right") - 1).tolist())
        hard = [texts[number] for number in sorted(owners)]
        points, kinds = _laid_out([text for number, text in enumerate(texts) if number not in owners])
    histogram = np.bincount(points[(kinds == _ALONE) | (kinds == _NUMERAL)])
    alone[: len(histogram)] += histogram
    in_run = kinds == _RUN
    kept = in_run.copy()
    kept[1:] |= in_run[:-1]  # the character after a run becomes the blank that separates it from the next
    solid = np.where(in_run[kept], points[kept], ord(" ")).astype("<u4")
    runs.update(solid.tobytes().decode("utf-32-le").split(" "))
    return hard


def _laid_out(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of all texts, each followed by a line end, and their kinds."""
    points = np.frombuffer("\n".join([*texts, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return points, _kinds()[0][points]


def _hard_places(points: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Return the places of characters whose form depends on their neighbours here."""
    numerals = np.flatnonzero(kinds == _NUMERAL)
    is_number = _kinds()[1]
    # The last character is a line end, so that the first one has it as its neighbour before.
    separated = numerals[is_number[points[numerals - 1]] | is_number[points[numerals + 1]]]
    return np.concatenate([np.flatnonzero(kinds == _HARD), separated])


@functools.cache
def _kinds() -> tuple[np.ndarray, np.ndarray]:
    """Return the kind of every code point, and whether a numeral beside it may have to be separated from it.

    Kinds are found by normalising each character between two letters with the tokeniser's rules.
    """
    kinds = np.full(0x110000, _HARD, dtype=np.uint8)
    kinds[0xD800:0xE000] = kinds[ord("\n")] = _BLANK
    # Code points beyond are private or unassigned. Those that this Python does not know (Cn) may be known to others.
    codes = map(chr, range(_END))
    known = [c for c in codes if unicodedata.category(c) not in ("Cn", "Cs") and c != "\n"]
    easy = [character for character in known if not _joins_before(unicodedata.normalize("NFKD", character)[0])]
    # By blocks, since most blocks have no character that needs all steps of the normaliser.
    blocks = ("\n".join(f"a{one}a" for one in easy[first : first + 1024]) for first in range(0, len(easy), 1024))
    lines = [line for block in blocks for line in normalise(block).split("\n")]
    kinds[[ord(character) for character in easy]] = [_kind(_WORD.findall(line)) for line in lines]
    # The other characters have nothing to do with numbers: a letter, a Chinese character, a comma.
    maybe = [one for one, line in zip(easy, lines, strict=True) if line == "aa" or _MAYBE_NUMBER.search(one + line)]
    is_number = np.zeros(0x110000, dtype=np.bool_)
    for character, (_, beside) in zip(maybe, forms_of(maybe, normalise), strict=True):
        is_number[ord(character)] = beside & NUMBER
        if beside & NUMERAL:
            kinds[ord(character)] = _NUMERAL
    return kinds, is_number


def _kind(words: Sequence[str]) -> int:
    if words == ["a", "a"]:
        return _BLANK
    # A character that normalisation removes joins its neighbours, so it is part of their run.
    return _ALONE if words[0] == words[-1] == "a" and len(words) > 2 else _RUN


def _joins_before(character: str) -> bool:
    """Return True if a character may merge with the one before it: marks, Hangul vowels and finals."""
    return unicodedata.category(character).startswith("M") or "\u1160" <= character <= "\u11ff"
