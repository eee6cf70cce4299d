"""Identifiers of persons in Chinese medical text: where they are and of which type.

A text is searched four times: for addresses on the internet, for runs of digits, for cues (住院号, 微信, 患者, 医生 …)
with what is written beside them, then for names between marks. Names found are searched for in the rest of the text.
What each type looks like is in `tasks/deidentify/identifier_types.py`.

Time grows with the characters: every pattern has bounded or possessive repeats, and each cue looks at a bounded
stretch around it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import rjieba

from tasks.deidentify.header_rows import DELIMITERS, OTHER_HEADERS, Below, headers_of, line_around, rows_below
from tasks.deidentify.identifier import Cues, Identifier, NetAddress, Number
from tasks.deidentify.identifier_types import PLACEHOLDERS, TYPES
from tasks.deidentify.lone_names import lone_names, may_hold_lone_names
from tasks.deidentify.suspicions import NET, NUMBERS, ODD_FORMS, all_suspicions, suspicions_of
from tasks.text.phrase_glance import PhraseGlance

_PLAIN_FORMS = {
    **{wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F) if chr(wide) not in "，：；（）！？"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""Full-width forms as plain ones; halves of surrogate pairs, which jieba cannot read, as the replacement character."""

_NET = {each.name: way for each in TYPES for way in each.ways if isinstance(way, NetAddress)}
# matches: "http://a.example.cn/x", "@mail.example.cn"
# not: "血压120/80"
_NET_SIGN = re.compile("|".join(f"(?P<{name}>{way.pattern})" for name, way in _NET.items()), re.ASCII | re.IGNORECASE)

_NUMBERS = [(each.name, way) for each in TYPES for way in each.ways if isinstance(way, Number)]
# matches: "138 1234 5678", "(0755)2673 4410"
# not: "3.5mmol"
_RUN = re.compile(r"[0-9(+][0-9 \-–—－()（）*xX]{5,}+")
# matches: "13812345678", "0755-267", "138****5678"
# not: "2019-05-06", "12 30"
_LIKELY = re.compile(r"\d{7}|\d{3}[ )）–—-]{1,3}\d{3}|\*{4}")
"""Content that makes a run of digits worth trying the patterns: most runs are dates and times."""

_CUES = [(each.name, way) for each in TYPES for way in each.ways if isinstance(way, Cues)]
_CUE_OF = {spelling: (name, cues) for name, cues in _CUES for spelling in cues.spellings()}
"""Type and way by the spelling of a cue."""
_HEADERS = {spelling: cues.header for _, cues in _CUES if cues.header for spelling in cues.spellings()}


def _alternatives(patterns: Mapping[str, str]) -> str:
    """Return one pattern for all words, the longest word first, grouped by first characters, which makes it fast.

    Args:
        patterns: pattern of each word, which begins with the word: 床 and 床号, of which 床号 is tried first.
    """
    groups: dict[str, list[str]] = {}
    for word in sorted(patterns, key=lambda word: (-len(word), word)):
        groups.setdefault(word[0], []).append(patterns[word][1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items())


# matches: "住院号", "住 院 号", "患者", "师：", "路28号"
# not: "头痛", "师", "路"
_CUE = re.compile(
    _alternatives({spelling: cues.pattern_of(spelling) for _, cues in _CUES for spelling in cues.spellings()})
)
_cue_glance = PhraseGlance(
    spelling + following
    for _, cues in _CUES
    for spelling in cues.spellings()
    for following in (cues.next_characters or [""])
)

_BESIDE_HEADERS = frozenset(" \u3000" + DELIMITERS)
_LINE_ENDS = frozenset(("\n", "\r", ""))
# matches: "  性别", "\t住"
# not: "性别"
_NEXT_HEADER = re.compile(rf"[ \u3000{DELIMITERS}]{{1,20}}(.[^\n]?)")
_HEADER_STARTS = {
    start for header in (*OTHER_HEADERS, "患者", "病人", *_HEADERS) for start in (header[:2], f"{header[0]} ")
}

# matches: "王伟", "阿依古丽·买买提"
# not: "王", "李某"
_PLAIN_NAME = re.compile(r"[\u4e00-\u9fff·]{2,20}(?<!某)\Z")


def may_hold(texts: Sequence[str]) -> np.ndarray:
    """Return which texts hold, at a glance, anything an identifier could hang on: bool (T,). The others hold none."""
    found: np.ndarray = (all_suspicions(texts) > 0) | _cue_glance.may_hold(texts) | may_hold_lone_names(texts)
    return found


def find_identifiers(text: str, names: Collection[str] = ()) -> list[Identifier]:
    """Return the identifiers of a text in order, without overlaps.

    Args:
        text: any text.
        names: names that are searched for besides those found by cues.
    """
    plain, suspicions = text, suspicions_of(text)
    if suspicions & ODD_FORMS:
        plain = text.translate(_PLAIN_FORMS)
        suspicions = suspicions_of(plain)
    found: list[Identifier] = []
    for suspicion, look in ((NET, _net_addresses), (NUMBERS, _numbers), (None, _cued)):
        seen = look(plain) if suspicion is None or suspicions & suspicion else []
        if seen:
            plain = _cover(plain, seen)
            found = sorted([*found, *seen])
    lone = [Identifier(*span, "name") for span in lone_names(plain)]
    if lone:
        plain = _cover(plain, lone)
        found = sorted([*found, *lone])
    again = _names_again(plain, {*names, *names_of(text, found)})
    return sorted([*found, *again]) if again else found


def names_of(text: str, found: Iterable[Identifier]) -> set[str]:
    """Return the names among the identifiers of a text, with and without the blanks that forms put into them."""
    written = {text[start:end] for start, end, kind in found if kind == "name"}
    return written | set(map(_unpadded, written))


def replace(text: str, found: Iterable[Identifier]) -> str:
    """Return the text with a placeholder for each identifier."""
    pieces, end = [], 0
    for identifier in found:
        pieces += [text[end : identifier.start], PLACEHOLDERS[identifier.type]]
        end = identifier.end
    return "".join([*pieces, text[end:]])


def _cover(text: str, found: Iterable[Identifier]) -> str:
    """Hide identifiers from the next search, at the same length, as what it would see at a placeholder: 〔〓〓〕."""
    pieces, end = [], 0
    for start, stop, _ in found:
        pieces += [text[end:start], ("〔" + "〓" * (stop - start - 2) + "〕")[: stop - start]]
        end = stop
    return "".join([*pieces, text[end:]])


def _net_addresses(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    end = 0
    for match in _NET_SIGN.finditer(text):
        kind = match.lastgroup
        assert kind is not None, "every alternative is a named group"
        span = _NET[kind].span(text, match, end)
        if span is not None:
            found.append(Identifier(*span, kind))
            end = span[1]
    return found


def _numbers(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    for run in _RUN.finditer(text):
        if not _LIKELY.search(text, *run.span()):
            continue
        taken = [identifier for kind, number in _NUMBERS for identifier in _in_run(text, run, kind, number)]
        end = 0
        for identifier in sorted(taken, key=lambda i: (i.start, -i.end)):
            if identifier.start >= max(end, found[-1].end if found else 0):
                found.append(identifier)
                end = identifier.end
    return found


def _in_run(text: str, run: re.Match[str], kind: str, number: Number) -> Iterable[Identifier]:
    """Yield the numbers of one type that begin in a run of digits, or up to two letters before it."""
    for match in number.pattern.finditer(text, max(0, run.start() - 2), run.end() + 16):
        if match.start() < run.end() and number.fits(text, match.start(), match[0]):
            yield Identifier(match.start(), match.end(), kind)


def _cued(text: str) -> list[Identifier]:
    found: list[Identifier] = []
    below: list[Identifier] = []
    end = after = seen = 0  # of the last identifier, the last cue, and the last row below headers
    for place in _cue_glance.places(text):
        match = _CUE.match(text, place) if place >= after else None
        if match is None:
            continue
        after = match.end()
        if place < end:
            continue  # the cue is part of the identifier before it
        if place >= seen and _may_be_header(text, place, after):
            first, seen = line_around(text, place)
            headers = headers_of(text, first, seen, _header_kind) if seen < len(text) else None
            if headers:
                end = seen
                for row in rows_below(text, first, seen, headers, _header_kind):
                    below += (one for cell in row for one in _below(text, cell))
                    seen = row[-1].end
                continue
        kind, cues = _CUE_OF[match[0]]
        for span in cues.beside(text, place, after, end):
            found.append(Identifier(*span, kind))
            end = span[1]
    return sorted([*below, *(one for one in found if not _overlaps(one, below))]) if below else found


def _may_be_header(text: str, start: int, end: int) -> bool:
    """Return True where a cue stands, at a glance, among others with nothing else between."""
    if start and text[start - 1] not in _BESIDE_HEADERS and text[start - 1] != "\n":
        return False
    if text[end : end + 1] in _LINE_ENDS:
        return end < len(text)
    following = _NEXT_HEADER.match(text, end) if text[end] in _BESIDE_HEADERS else None
    return following is not None and (following[1] in _HEADER_STARTS or following[1][0] == "\r")


def _header_kind(header: str) -> str | None:
    """Return the kind of the values below a header that is about a person; None for other words."""
    return "name" if header in ("患者", "病人") else _HEADERS.get(header)


def _below(text: str, cell: Below) -> Iterator[Identifier]:
    """Yield the identifiers of a cell, which is read behind its header and a colon: 姓名：王芳."""
    cue = f"{cell.header}："
    for start, end, kind in _cued(cue + text[cell.start : cell.end]):
        if start >= len(cue):
            yield Identifier(cell.start + start - len(cue), cell.start + end - len(cue), kind)


def _overlaps(one: Identifier, others: Sequence[Identifier]) -> bool:
    """Return True where an identifier overlaps one of others, which are in order."""
    place = bisect.bisect(others, one)
    return any(other.start < one.end and one.start < other.end for other in others[max(0, place - 1) : place + 1])


def _unpadded(name: str) -> str:
    return "".join(name.split())


def _is_whole(name: str) -> bool:
    """Return True for a name that can be searched for: 高明 and other pairs that are words would hit the words."""
    return bool(_PLAIN_NAME.match(name)) and not (len(name) == 2 and rjieba.has_word(name))


def _names_again(text: str, names: set[str]) -> list[Identifier]:
    """Find other mentions of the names found, as far as they are whole and not words.

    At each character with which a name begins, one look per length of name: time does not grow with their number.
    """
    whole = {name for name in names if _is_whole(_unpadded(name))}
    if not whole:
        return []
    lengths = sorted({len(name) for name in whole}, reverse=True)
    found: list[Identifier] = []
    end = 0
    for first in re.finditer(f"[{''.join(sorted({name[0] for name in whole}))}]", text):
        start = first.start()
        length = next((length for length in lengths if text[start : start + length] in whole), 0)
        if length and start >= end:
            end = start + length
            found.append(Identifier(start, end, "name"))
    return found
