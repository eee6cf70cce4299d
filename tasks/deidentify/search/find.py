"""Identifiers of persons in Chinese medical text: where they are and of which type.

A text is searched five times: for addresses on the internet, for runs of digits, for cues (住院号, 微信, 患者, 医生 …)
with what is written beside them, for words around digits (dates, ages), then for names between marks and of
speakers. A trained recogniser may find more in what is left. Numbers that stand beside names count as well, and names
found are searched for in the rest of the text. What each kind looks like is in `tasks/deidentify/kinds.py`; a
`Finder` looks for some kinds.

Time grows with the characters: every pattern has bounded or possessive repeats, and each cue looks at a bounded
stretch around it.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from tasks.deidentify.forms.identifier import (
    Cues,
    Digits,
    Identifier,
    IdentifierType,
    NetAddress,
    Number,
    OwnPattern,
    OwnWords,
    Reader,
    mentions,
)
from tasks.deidentify.forms.plain import plain_form, simplified
from tasks.deidentify.kinds import ALWAYS_SEARCHED, KINDS, MINIMAL, PLACEHOLDERS
from tasks.deidentify.recogniser import Recogniser
from tasks.deidentify.search.chat_speakers import chat_speakers, may_hold_speakers
from tasks.deidentify.search.header_rows import DELIMITERS, OTHER_HEADERS, Below, headers_of, line_around, rows_below
from tasks.deidentify.search.lone_names import lone_names, may_hold_lone_names
from tasks.deidentify.search.names_again import PART, names_again
from tasks.deidentify.search.numbers_beside_names import numbers_beside
from tasks.deidentify.search.suspicions import NET, NUMBERS, ODD_FORMS, all_suspicions, suspicions_of
from tasks.deidentify.search.whole_addresses import whole_addresses
from tasks.deidentify.search.whole_numbers import NUMBERED, whole_numbers
from tasks.text.phrase_glance import PhraseGlance

# matches: "138 1234 5678", "(0755)2673 4410", "138.1234.5678", "DN0273"
# not: "3.5mmol", "DN273"
_RUN = re.compile(r"[0-9(+](?:[0-9 .\-–—－()（）*xX]{5,}+|(?<=[A-Z]0)\d{3,4})")
# matches: "13812345678", "1 3 8 1 2 3 4 5 6 7 8", "138****5678", "26-08813", "018837-2", "18956 03", "2.113619.2"
# not: "2019-05-06", "12 30"
_LIKELY = re.compile(
    r"\d{7}|\d{3}[ .)）–—-]{1,3}\d{3}|\*{4}|(?<!\d)\d\d-\d{4}|\d{5}-\d|(?<!\d)1[3-9]\d\d+ \d\d"
    r"|1[ -][3-9](?:[ -]\d){9}|\d{4} \d\d \d{6}|\d-\d{1,3}-\d{3}|(?<=[A-Z])0\d{3}|\.\d{5,6}\.|(?<=[A-Z]-)\d\d-\d{3}"
)
"""Content that makes a run of digits worth trying the patterns: most runs are dates and times."""

# matches: "1", "*"
# not: "-", "X"
_DIGIT_OR_STAR = re.compile(r"[\d*]")
_BEFORE_RUN, _BEHIND_RUN = 6, 16
"""Characters before and behind a run of digits that a number of it may hold too."""

# matches: "〔姓名〕"
# not: "姓名", "〔〕"
_REPLACED = re.compile(r"〔[^〔〕\n]{1,20}〕")
# matches: "2023", "12"
# not: "年"
_DIGITS = re.compile(r"[0-9]++")

_BESIDE_HEADERS = frozenset(" \u3000" + DELIMITERS)
_LINE_ENDS = frozenset(("\n", "\r", ""))
# matches: "  性别", "\t住"
# not: "性别"
_NEXT_HEADER = re.compile(rf"[ \u3000{DELIMITERS}]{{1,20}}(.[^\n]?)")


class Finder:
    """Search for the identifiers of some kinds. Making one takes milliseconds, so use `finder_of`, which keeps them."""

    def __init__(
        self,
        types: Sequence[IdentifierType],
        reported: Collection[str],
        allowed: Collection[str] = (),
        recognise: Recogniser | None = None,
    ) -> None:
        """Prepare the search.

        Args:
            types: kinds that are looked for; of two numbers that cover the same characters the first one counts.
            reported: names of those that are returned. What the others find stays, and is not taken for another kind.
            allowed: words that stay wherever they are; see `without_allowed`.
            recognise: finds more than the rules; None for rules alone.
        """
        self._recognise = recognise
        self._allowed = frozenset(allowed)
        ways = [(each.name, way) for each in types for way in each.ways]
        self._kinds = frozenset(reported)
        self._reported = None if {each.name for each in types} <= set(reported) else frozenset(reported)
        self._own = [(name, way) for name, way in ways if isinstance(way, OwnPattern | OwnWords)]
        self._net = {f"net{i}": (name, way) for i, (name, way) in enumerate(ways) if isinstance(way, NetAddress)}
        self._net_sign = re.compile(
            "|".join(f"(?P<{key}>{way.pattern})" for key, (_, way) in self._net.items()), re.ASCII | re.IGNORECASE
        )
        numbers = [(name, way) for name, way in ways if isinstance(way, Number)]
        self._early_numbers = [(name, way) for name, way in numbers if not way.after_cues]
        self._late_numbers = [(name, way) for name, way in numbers if way.after_cues]
        digits = [(name, way) for name, way in ways if isinstance(way, Digits)]
        self._early_digits = _by_next_character([each for each in digits if not each[1].after_cues])
        self._late_digits = _by_next_character([each for each in digits if each[1].after_cues])
        cues = [
            (name, way, simplified(spelling))
            for name, way in ways
            if isinstance(way, Cues)
            for spelling in way.spellings()
        ]
        self._beside: dict[str, list[tuple[str, Reader, str, re.Pattern[str]]]] = {}
        """Kinds, readers, rules and patterns of the ways by the spelling of a cue."""
        for name, way, spelling in cues:
            rule = f"cue {spelling} of {way.origin}" if way.origin else f"cue {spelling}"
            pattern = re.compile(way.pattern_of(spelling))
            self._beside.setdefault(spelling, []).append((name, way.beside, rule, pattern))
        self._headers = {spelling: way.header for _, way, spelling in cues if way.header}
        self._header_starts = {
            start
            for header in (*OTHER_HEADERS, "患者", "病人", *self._headers)
            for start in (header[:2], f"{header[0]} ")
        }
        self._cue = re.compile(_alternatives([(spelling, way.pattern_of(spelling)) for _, way, spelling in cues]))
        self._cue_glance = PhraseGlance(
            spelling + following for _, way, spelling in cues for following in (way.next_characters or [""])
        )

    def may_hold(self, texts: Sequence[str]) -> np.ndarray:
        """Return which texts hold, at a glance, any trace of an identifier: bool (T,). The others hold none."""
        found: np.ndarray = (all_suspicions(texts) > 0) | self._cue_glance.may_hold(texts) | may_hold_lone_names(texts)
        found |= may_hold_speakers(texts)
        if self._own or self._recognise:
            found |= True  # a glance at any pattern would cost what the search does
        elif self._early_digits or self._late_digits:
            found |= np.array([_DIGITS.search(text) is not None for text in texts], dtype=np.bool_)
        return found

    def find(self, text: str, names: Collection[str] = (), certain: Collection[str] = ()) -> list[Identifier]:
        """Return the identifiers of a text in order, without overlaps.

        Args:
            text: any text.
            names: names that are searched for besides those found by cues.
            certain: those of `names` that a field says the person has, which count even where they may be words.
        """
        plain, suspicions = text, suspicions_of(text)
        found: list[Identifier] = []
        if suspicions & ODD_FORMS:
            plain = plain_form(text)
        if self._own:  # in the script that the user's patterns are written in
            found = self._own_rules(plain)
            plain = _cover(plain, found)
        if suspicions & ODD_FORMS:
            plain = simplified(plain)
            suspicions = suspicions_of(plain)
        looks: list[Callable[[str], list[Identifier]]] = [
            *([self._net_addresses] if suspicions & NET else []),
            *([functools.partial(_around_digits, self._early_digits)] if self._early_digits else []),
            *([functools.partial(_numbers, self._early_numbers)] if suspicions & NUMBERS else []),
            self._cued,
            *([functools.partial(_numbers, self._late_numbers)] if suspicions & NUMBERS else []),
            *([functools.partial(_around_digits, self._late_digits)] if self._late_digits else []),
            _lone_names,
            _chat_speakers,
        ]
        clear = plain
        for look in looks:
            if look == self._cued:
                clear = plain
            seen = look(plain)
            if seen:
                plain = _cover(plain, seen)
                found = sorted([*found, *seen])
        if self._recognise is not None:
            found = _joined(found, [one for one in self._recognise(clear) if one.type in self._kinds])
            plain = _cover(plain, found)
        if not found and not names:
            return []  # as in most texts: nothing beside a name, and no name to look for again
        if any(one.type == "address" for one in found):
            found = whole_addresses(plain, found)
            plain = _cover(plain, found)
        if any(one.type in NUMBERED for one in found):
            found = whole_numbers(plain, found)
            plain = _cover(plain, found)
        beside = numbers_beside(plain, [(one.start, one.end) for one in found if one.type == "name"], self._kinds)
        if beside:
            found = sorted([*found, *beside])
            plain = _cover(plain, beside)
        # 张仲景方 is no name to look for again where 张仲景 is allowed
        found = self.without_allowed(text, found)
        known = {simplified(name) for name in (*names, *names_of(text, found))}
        again = self.without_allowed(text, names_again(plain, known, frozenset(map(simplified, certain))))
        found = sorted([*found, *again]) if again else found
        if self._reported is not None:
            found = [one for one in found if one.type in self._reported]
        return found

    def without_allowed(self, text: str, found: Sequence[Identifier]) -> list[Identifier]:
        """Return identifiers, in order, without the allowed words in them.

        What is left of one stays an identifier if it has two letters or digits: the address of 南阳市张仲景路12号
        becomes 南阳市 and 路12号, and the name 张仲景方 none.
        """
        spans = list(mentions(text, self._allowed))
        if not spans:
            return list(found)
        ends = [end for _, end in spans]
        kept: list[Identifier] = []
        for one in found:
            start, place = one.start, bisect.bisect_right(ends, one.start)
            is_cut = False
            while place < len(spans) and spans[place][0] < one.end:
                is_cut = True
                kept += _rest(text, one, start, spans[place][0])
                start = spans[place][1]
                place += 1
            kept += _rest(text, one, start, one.end) if is_cut else [one]
        return kept

    def _own_rules(self, text: str) -> list[Identifier]:
        taken = [Identifier(*span, kind, way.reason) for kind, way in self._own for span in way.spans(text)]
        # A pattern such as two Chinese characters would match inside 〔姓名〕, in every round again.
        replaced = [Identifier(*mark.span(), "") for mark in _REPLACED.finditer(text)] if taken else []
        found: list[Identifier] = []
        for one in sorted(taken, key=lambda one: (one.start, -one.end)):
            if (not found or one.start >= found[-1].end) and not _overlaps(one, replaced):
                found.append(one)
        return found

    def _net_addresses(self, text: str) -> list[Identifier]:
        found: list[Identifier] = []
        end = 0
        for match in self._net_sign.finditer(text):
            assert match.lastgroup is not None, "every alternative is a named group"
            kind, way = self._net[match.lastgroup]
            span = way.span(text, match, end)
            if span is not None:
                found.append(Identifier(*span, kind, "form of an internet address"))
                end = span[1]
        return found

    def _cued(self, text: str) -> list[Identifier]:
        found: list[Identifier] = []
        below: list[Identifier] = []
        end = after = seen = 0  # of the last identifier, the last cue, and the last row below headers
        for place in self._cue_glance.places(text):
            match = self._cue.match(text, place) if place >= after else None
            if match is None:
                continue
            after = match.end()
            if place < end:
                continue  # the cue is part of the identifier before it
            if place >= seen and self._may_be_header(text, place, after):
                first, seen = line_around(text, place)
                headers = headers_of(text, first, seen, self._header_kind) if seen < len(text) else None
                if headers:
                    end = seen
                    for row in rows_below(text, first, seen, headers, self._header_kind):
                        below += (one for cell in row for one in self._below(text, cell))
                        seen = row[-1].end
                    continue
            for identifier in self._read_beside(text, match, end):
                found.append(identifier)
                end = identifier.end
        return sorted([*below, *(one for one in found if not _overlaps(one, below))]) if below else found

    def _read_beside(self, text: str, cue: re.Match[str], free_from: int) -> list[Identifier]:
        """Return what the ways of a cue find beside it, those of the first one where they overlap."""
        ways = self._beside[cue[0]]
        found: list[Identifier] = []
        for kind, beside, rule, pattern in ways:
            if len(ways) > 1 and not pattern.match(text, cue.start()):
                continue  # 号 may be a cue of two ways, each with another mark behind it
            for span in beside(text, cue.start(), cue.end(), free_from):
                identifier = Identifier(*span, kind, rule)
                if not _overlaps(identifier, found):
                    bisect.insort(found, identifier)
        return found

    def _may_be_header(self, text: str, start: int, end: int) -> bool:
        """Return True where a cue stands, at a glance, among others with nothing else between."""
        if start and text[start - 1] not in _BESIDE_HEADERS and text[start - 1] != "\n":
            return False
        if text[end : end + 1] in _LINE_ENDS:
            return end < len(text)
        following = _NEXT_HEADER.match(text, end) if text[end] in _BESIDE_HEADERS else None
        return following is not None and (following[1] in self._header_starts or following[1][0] == "\r")

    def _header_kind(self, header: str) -> str | None:
        """Return the kind of the values below a header that is about a person; None for other words."""
        return "name" if header in ("患者", "病人") else self._headers.get(header)

    def _below(self, text: str, cell: Below) -> Iterator[Identifier]:
        """Yield the identifiers of a cell, which is read behind its header and a colon: 姓名：王芳."""
        cue = f"{cell.header}："
        for start, end, kind, _ in self._cued(cue + text[cell.start : cell.end]):
            if start >= len(cue):
                first = cell.start - len(cue)
                yield Identifier(first + start, first + end, kind, f"below the header {cell.header}")


@functools.lru_cache(maxsize=16)
def finder_of(kinds: frozenset[str]) -> Finder:
    """Return the search for some kinds, by their names in `KINDS`."""
    return Finder([each for name, each in KINDS.items() if name in kinds | ALWAYS_SEARCHED], kinds)


def may_hold(texts: Sequence[str]) -> np.ndarray:
    """Return `Finder.may_hold` of the profile minimal."""
    return finder_of(MINIMAL).may_hold(texts)


def find_identifiers(text: str, names: Collection[str] = ()) -> list[Identifier]:
    """Return `Finder.find` of the profile minimal, by rules alone: identifiers in order, without overlaps."""
    return finder_of(MINIMAL).find(text, names)


def _joined(found: list[Identifier], recognised: list[Identifier]) -> list[Identifier]:
    """Return what rules found and what a recogniser did, both in order.

    Where both found something, the rules count, unless they found only parts of the same kind: 狄 of 厍狄.
    """
    joined: list[Identifier] = []
    place = 0
    for one in recognised:
        while place < len(found) and found[place].end <= one.start:
            joined.append(found[place])
            place += 1
        end = place
        while end < len(found) and found[end].start < one.end:
            end += 1
        parts = found[place:end]
        is_same = [(part.start, part.end) for part in parts] == [(one.start, one.end)]
        if not is_same and all(
            part.type == one.type and one.start <= part.start and part.end <= one.end for part in parts
        ):
            joined.append(one)
            place = end
    return [*joined, *found[place:]]


def _alternatives(patterns: Iterable[tuple[str, str]]) -> str:
    """Return one pattern for all words, the longest word first, grouped by first characters, which makes it fast.

    Args:
        patterns: words, each with a pattern that begins with the word: 床 and 床号, of which 床号 is tried first.
    """
    groups: dict[str, list[str]] = {}
    for word, pattern in sorted(set(patterns), key=lambda each: (-len(each[0]), each)):
        groups.setdefault(word[0], []).append(pattern[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items())


def names_of(text: str, found: Iterable[Identifier]) -> set[str]:
    """Return the names among the identifiers of a text, with and without the blanks that forms put into them."""
    written = {text[start:end] for start, end, kind, rule in found if kind == "name" and rule != PART}
    return written | set(map(_unpadded, written))


def replace(text: str, found: Iterable[Identifier], marks: Iterable[str] | None = None) -> str:
    """Return the text with a placeholder for each identifier, or with the marks that are given for them, in order."""
    found = list(found)
    pieces, end = [], 0
    for identifier, mark in zip(found, marks or (PLACEHOLDERS[one.type] for one in found), strict=True):
        pieces += [text[end : identifier.start], mark]
        end = identifier.end
    return "".join([*pieces, text[end:]])


def _cover(text: str, found: Iterable[Identifier]) -> str:
    """Hide identifiers from the next search, at the same length, as what it would see at a placeholder: 〔〓〓〕."""
    pieces, end = [], 0
    for start, stop, *_ in found:
        pieces += [text[end:start], ("〔" + "〓" * (stop - start - 2) + "〕")[: stop - start]]
        end = stop
    return "".join([*pieces, text[end:]])


def _rest(text: str, one: Identifier, start: int, end: int) -> list[Identifier]:
    """Return what is left of an identifier beside an allowed word, without blanks around; none of one character."""
    written = text[start:end]
    start += len(written) - len(written.lstrip())
    rest = one._replace(start=start, end=start + len(written.strip()))
    return [rest] if sum(map(str.isalnum, written)) >= 2 else []


def _numbers(ways: Sequence[tuple[str, Number]], text: str) -> list[Identifier]:
    found: list[Identifier] = []
    for run in _RUN.finditer(text):
        if not _LIKELY.search(text, *run.span()):
            continue
        many = len(_DIGIT_OR_STAR.findall(text, max(0, run.start() - _BEFORE_RUN), run.end() + _BEHIND_RUN))
        taken = [one for kind, number in ways if number.least <= many for one in _in_run(text, run, kind, number)]
        end = 0
        for identifier in sorted(taken, key=lambda i: (i.start, -i.end)):
            if identifier.start >= max(end, found[-1].end if found else 0):
                found.append(identifier)
                end = identifier.end
    return found


def _in_run(text: str, run: re.Match[str], kind: str, number: Number) -> Iterable[Identifier]:
    """Yield the numbers of one type that begin in a run of digits, or up to six letters before it."""
    for match in number.pattern.finditer(text, max(0, run.start() - _BEFORE_RUN), run.end() + _BEHIND_RUN):
        if match.start() < run.end() and number.fits(text, match.start(), match[0]):
            yield Identifier(match.start(), match.end(), kind, "digits of this form")


_DigitWays = dict[str, list[tuple[str, Digits, re.Pattern[str]]]]
"""Kinds, ways and their patterns by the character that follows a run of digits."""


def _by_next_character(ways: Iterable[tuple[str, Digits]]) -> _DigitWays:
    found: _DigitWays = {}
    for kind, way in ways:
        for sign in way.next_characters:
            found.setdefault(sign, []).append((kind, way, re.compile(way.pattern)))
    return found


def _around_digits(ways: _DigitWays, text: str) -> list[Identifier]:
    """Return what the first way that fits finds at each run of digits."""
    found: list[Identifier] = []
    end = 0
    for run in _DIGITS.finditer(text):
        start = run.start()
        if start < end:
            continue
        for kind, way, pattern in ways.get(text[run.end() : run.end() + 1], ()):
            match = pattern.match(text, start)
            if match is not None and (way.fits is None or way.fits(text, match)):
                first, end = match.span("value" if "value" in pattern.groupindex else 0)
                found.append(Identifier(first, end, kind, "words around digits"))
                break
    return found


def _lone_names(text: str) -> list[Identifier]:
    return [Identifier(*span, "name", "name between marks") for span in lone_names(text)]


def _chat_speakers(text: str) -> list[Identifier]:
    return [Identifier(*span, "name", "speaker of several lines") for span in chat_speakers(text)]


def _overlaps(one: Identifier, others: Sequence[Identifier]) -> bool:
    """Return True where an identifier overlaps one of others, which are in order."""
    place = bisect.bisect(others, one)
    return any(other.start < one.end and one.start < other.end for other in others[max(0, place - 1) : place + 1])


def _unpadded(name: str) -> str:
    return "".join(name.split())
