"""Identifiers of persons, and the shape of the table that says how each type of them is recognised.

The table itself is `tasks/deidentify/kinds.py`; `tasks/deidentify/search/find.py` looks through texts with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from infra.arrays.code_points import points_of

Span = tuple[int, int]
"""First character of a stretch of a text, and the one behind it."""

Check = Callable[[str, int, str], bool]
"""Takes a text, the start of a number in it and the number; returns True for an identifier."""

Reader = Callable[[str, int, int, int], list[Span]]
"""Takes a text, the start and end of a cue, and the first character that no identifier has taken yet.

Returns the identifiers beside the cue, in order.
"""


Profile = Literal["minimal", "hipaa", "gbt35273"]
"""Which types are treated: the twelve that name a person, HIPAA's Safe Harbor list, or GB/T 35273's annexes."""

PROFILES: tuple[Profile, ...] = get_args(Profile)


class Identifier(NamedTuple):
    """An identifier of a person: characters `start` to `end` of a text, its type, and the rule that found it."""

    start: int
    end: int
    type: str
    rule: str = ""
    """Reason why it counts, for people: `cue 住院号`, `digits of this form`, `found before`."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way in which identifiers of a type are recognised."""

    found: tuple[str, ...]
    """Texts with the identifiers that this way recognises in braces: `打{138-1234-5678}`."""
    kept: tuple[str, ...]
    """Similar texts without any identifier, which must stay as they are."""


@dataclass(frozen=True, kw_only=True)
class Number(Way):
    """A number that is recognised by its digits alone. It begins in a run of digits, or six letters before one."""

    pattern: re.Pattern[str]
    least: int
    """Least number of digits and stars in what the pattern matches: the pattern is not tried where there are fewer."""
    fits: Check
    """Check of what the pattern matches: a check digit, or what is written before the number."""
    after_cues: bool = False
    """True where it is tried after cues are: 电话12345678 is a telephone, not any long number."""


@dataclass(frozen=True, kw_only=True)
class Digits(Way):
    """Words around digits: dates, ages, addresses of machines. The pattern is tried at the start of runs of digits."""

    pattern: str
    """Pattern of all from the first digit on. What its group `value` matches is the identifier; without it, all."""
    fits: Callable[[str, re.Match[str]], bool] | None = None
    """Check of a match: takes the text and the match."""
    next_characters: str
    """Characters of which one must follow the first digits: the pattern is tried there alone."""
    after_cues: bool = True
    """False where it is tried before cues are: an IP address must not become part of a street address."""


@dataclass(frozen=True, kw_only=True)
class NetAddress(Way):
    """An address on the internet, recognised by signs that little else has: `://`, `www.` or `@`."""

    pattern: str
    """Pattern of those signs and what follows them; ASCII only, in either case."""
    span: Callable[[str, re.Match[str], int], Span | None]
    """Takes a text, a match of the pattern and the first free character; returns the whole address, if it is one."""


@dataclass(frozen=True, kw_only=True)
class Cues(Way):
    """Words that announce an identifier: 住院号, 微信, 患者, 医生."""

    words: str
    """The words, with blanks between them."""
    beside: Reader
    header: Literal["number", "name", "place"] | None = None
    """Kind of the values below such a word where it heads a column; None where it heads none."""
    padded: bool = False
    """True where forms also write the Chinese words with a blank between the characters: 住 院 号."""
    before: str = ""
    """Pattern of what must be written before a word for it to count."""
    after: str = ""
    """Pattern of what must follow a word for it to count."""
    next_characters: str = ""
    """Characters of which one must follow a word for it to count; a cheaper form of `after`."""
    origin: str = ""
    """Name of the file of a user's own words."""

    def spellings(self) -> Iterator[str]:
        """Each word as it may be written."""
        for word in self.words.split():
            yield word
            if self.padded and not re.search("[A-Za-z]", word):
                yield " ".join(word)

    def pattern_of(self, spelling: str) -> str:
        """Regular expression of a word with what must be written around it. It begins with the word itself."""
        spelling = spelling.replace("(", r"\(")
        before = f"(?<={self.before}{spelling})" if self.before else ""
        after = f"(?={self.after})" if self.after else ""
        following = f"(?=[{self.next_characters}])" if self.next_characters else ""
        return spelling + before + after + following


@dataclass(frozen=True, kw_only=True)
class OwnPattern(Way):
    """A pattern of a user's rules, which is searched for before anything else."""

    pattern: re.Pattern[str]
    reason: str

    def spans(self, text: str) -> Iterator[Span]:
        """Yield what the pattern matches: its group `value`, or all."""
        group = "value" if "value" in self.pattern.groupindex else 0
        return (match.span(group) for match in self.pattern.finditer(text) if match.end(group) > match.start(group))


@dataclass(frozen=True, kw_only=True)
class OwnWords(Way):
    """Words of a user's rules: a deny list. The time of a search does not grow with their number."""

    words: frozenset[str]
    reason: str

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where the words are, the longest one at each place."""
        return mentions(text, self.words)


_PAIRS = 1 << 16
"""Hashes of two characters."""


def mentions(text: str, words: Collection[str]) -> Iterator[Span]:
    """Yield where words are in a text, the longest one at each place, without overlaps.

    At each pair of characters with which a word begins, one look per length of word: time does not grow with their
    number.
    """
    if not words:
        return
    lengths = sorted({len(word) for word in words}, reverse=True)
    end = 0
    for start in _beginnings(text, words):
        length = next((length for length in lengths if text[start : start + length] in words), 0)
        if length and start >= end:
            end = start + length
            yield start, end


def _beginnings(text: str, words: Collection[str]) -> list[int]:
    """Return where a word may begin, in order: at words of one character, and at two whose hash is that of a word's."""
    points = points_of(text)
    firsts = points_of("".join([word[:2] for word in words if len(word) > 1]))
    begins = np.zeros(_PAIRS, dtype=np.bool_)
    begins[_pairs(firsts[::2], firsts[1::2])] = True
    found = np.zeros(len(points), dtype=np.bool_)
    found[:-1] = begins[_pairs(points[:-1], points[1:])]
    if alone := [ord(word) for word in words if len(word) == 1]:
        found |= np.isin(points, alone)
    places: list[int] = np.flatnonzero(found).tolist()
    return places


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return hashes of pairs of characters, uint32 (N,); what is more than 32 bits does not count."""
    return (first * np.uint32(40503) + second) & np.uint32(_PAIRS - 1)


@dataclass(frozen=True, kw_only=True)
class About:
    """Meaning of a type of identifier, and which regulations name it."""

    what: str
    """Noun phrase for people: mobile telephone numbers."""
    profiles: tuple[Profile, ...] = PROFILES
    """Profiles that treat it; a user's `deidentify.kinds` is stronger."""
    hipaa: str = ""
    """Letter of HIPAA's Safe Harbor list, 45 CFR 164.514(b)(2)(i), with the name that it has there."""
    gbt: str = ""
    """Name in annexes A and B of GB/T 35273-2020, or in article 28 of the PIPL."""


@dataclass(frozen=True)
class IdentifierType:
    """A type of identifier: what replaces it, who asks for it, and every way in which it is recognised."""

    name: str
    """Name in counts and counters: `replaced_mobile`."""
    placeholder: str
    """Text that replaces an identifier. Its brackets are single tokens and words of their own."""
    about: About
    ways: tuple[Way, ...]
