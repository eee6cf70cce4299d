"""Spelling of diagnoses: two tables correct typos and write abbreviations out.

    支气管哮踹  →  支气管哮喘                     row of typos: 哮踹,哮喘
    COPD并心衰  →  慢性阻塞性肺病并心力衰竭       rows of abbreviations: copd,慢性阻塞性肺病,anywhere and so on

Texts are expected in the normal form of kg/names.py; tables are normalised here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest

from kg.names import forms_of

PLACES: Mapping[str, Callable[[re.Match[str]], bool]] = {
    "anywhere": lambda match: True,  # COPD in COPD急性加重
    "end": lambda match: match.start() > 0 and match.end() == len(match.string),  # 癌 in 胃癌, but not in 癌前病变
    "whole": lambda match: match.span() == (0, len(match.string)),  # 高血压, but not in 高血压性脑病
}
"""Where in a text a short form is replaced by its expansion, as tables name it."""


class Typos:
    """Corrections of common typos."""

    def __init__(self, right: Mapping[str, str]) -> None:
        """Take the right spelling of each wrong one."""
        self._right = dict(zip(normal_forms(right.keys()), normal_forms(right.values()), strict=True))
        self._words = Words(self._right)

    def corrected(self, text: str) -> str:
        """Return the text without the typos of the table."""
        found = self._words.found(text)
        if not found:
            return text
        ends = [0, *(match.end() for match in found)]
        pieces = (text[end : match.start()] + self._right[match[0]] for end, match in zip(ends, found, strict=False))
        return "".join((*pieces, text[ends[-1] :]))


class Words:
    """Finds words of a table in texts, the longest first; Latin words only as a whole: copd in "copd急性加重", but
    not in copdx.

    One pattern of so many words is slow, so it is used only on texts that begin to look like having one.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._sizes: dict[str, tuple[int, ...]] = {}
        """Lengths of the words with each beginning of two characters (or of one, for a word of one)."""
        for size, beginning in sorted({(len(word), word[:2]) for word in self._words}):
            self._sizes[beginning] = (*self._sizes.get(beginning, ()), size)
        self._pattern = _any_of(list(self._words))

    def found(self, text: str) -> list[re.Match[str]]:
        """Return the matches in a text, in order."""
        return list(self._pattern.finditer(text)) if self._pattern and self.may_be_in(text) else []

    def may_be_in(self, text: str) -> bool:
        """Return False only if none of the words is in a text."""
        words, sizes = self._words, self._sizes
        for at in range(len(text)):
            for size in sizes.get(text[at : at + 2], ()):
                if text[at : at + size] in words:
                    return True
            if text[at] in words:
                return True
        return False


class Abbreviations:
    """Expansions of short forms."""

    def __init__(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Take rows (short form, expansion, place). A short form may have several expansions, best first."""
        shorts, expansions = (normal_forms([row[column] for row in rows]) for column in (0, 1))
        self._expansions: dict[tuple[str, str], list[str]] = {}
        for short, expansion, (_, _, place) in zip(shorts, expansions, rows, strict=True):
            self._expansions.setdefault((short, place), []).append(expansion)
        self._words = {place: Words([short for short, own in self._expansions if own == place]) for place in PLACES}

        self._all = Words({short for short, _ in self._expansions})

    def written_out(self, text: str) -> list[str]:
        """Return the text with the first expansions of its short forms, with the second ones, and so on.

        The list is empty if the text contains no short form.
        """
        if not self._all.may_be_in(text):
            return []
        texts: list[str] = []
        for place, words in self._words.items():
            found = [match for match in words.found(text) if PLACES[place](match)]
            choices = [self._expansions[match[0], place] for match in found]
            for written in zip_longest(*choices):
                # DM has two expansions and 肾衰 one: the second text of DM伴肾衰 uses that one again.
                filled = [one or own[-1] for one, own in zip(written, choices, strict=True)]
                texts.append(_replaced(text, found, filled))
        return [written for written in texts if written != text]

    def is_ambiguous(self, text: str) -> bool:
        """Return True if a Latin short form of several expansions is in the text: MI, but not COPD or 甲亢."""
        return self._all.may_be_in(text) and any(
            match[0].isascii() and len(self._expansions[match[0], place]) > 1 and PLACES[place](match)
            for place, words in self._words.items()
            for match in words.found(text)
        )

    def has_latin(self, text: str) -> bool:
        """Return True if a Latin short form is in the text."""
        return self._all.may_be_in(text) and any(
            match[0].isascii() and PLACES[place](match)
            for place, words in self._words.items()
            for match in words.found(text)
        )

    def is_short(self, text: str) -> bool:
        """Return True if the text is nothing but a short form."""
        return any((text, place) in self._expansions for place in PLACES)


def normal_forms(names: Iterable[str]) -> list[str]:
    """Return the normal form of each name (kg/names.py). Lone surrogates, which polars rejects, become "?"."""
    whole = [name.encode("utf-8", "replace").decode() for name in names]
    return forms_of(whole)


def _replaced(text: str, found: Sequence[re.Match[str]], expansions: Sequence[str]) -> str:
    """Return the text with each match replaced by its expansion, but without doubling what is there already."""
    pieces, start = [], 0
    for match, expansion in zip(found, expansions, strict=True):
        # 类风湿 stays in 类风湿性关节炎, which is its own expansion.
        offset = expansion.find(match[0])
        is_expanded = offset >= 0 and text.startswith(expansion, max(0, match.start() - offset))
        kept = text[start : match.start()]
        # 急性STEMI must not become 急性急性ST段抬高型心肌梗死.
        doubled = next((size for size in range(len(expansion), 1, -1) if kept.endswith(expansion[:size])), 0)
        pieces += [kept, match[0] if is_expanded else expansion[doubled:]]
        start = match.end()
    return "".join([*pieces, text[start:]])


def _any_of(words: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern of any of the words, the longest first, or None if there are no words."""
    if not words:
        return None
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(
        "|".join(
            rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])" if word.isascii() else re.escape(word)
            for word in longest_first
        )
    )
