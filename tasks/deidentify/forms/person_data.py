"""Names that a person's data give away: 刘桂香 女 77岁, 孙丽（化名），25岁, Anna Berg, F 38Y.

A reader looks at a bounded stretch before the sex or the age, at the end of which the name must be.
"""

from __future__ import annotations

import re

import rjieba

from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.names import GIVEN, LATIN_WORD, is_nobody, is_stop, surname_length

_WINDOW = 32
"""Characters before a sex or an age in which its name may begin."""

_HAN = "\u4e00-\u9fff"
_LATIN_WORD = rf"(?:[A-Z][A-Za-z]{{1,14}}|{LATIN_WORD})"
# matches: "住院号〔编号〕 刘桂香 ", "孙丽（化名），", "Anna Berg, ", "艾力·买买提，"
# not: "，刘桂香", "。"
_RUN = re.compile(
    rf"(?:(?<![{_HAN}·A-Za-z])(?P<han>[{_HAN}]{{2,8}}(?:·[{_HAN}]{{1,8}}){{0,3}})"
    rf"|(?<![A-Za-z'’\-])(?P<latin>{_LATIN_WORD}(?:[ ^]{_LATIN_WORD}){{1,3}}))"
    r"(?:[（(]化名[)）])?[\s，,、（(：:]{1,4}$"
)
# matches: "患者", "转诊患儿", "首例"
# not: "胃痛"
_ROLE = re.compile(r"^.{0,2}(?:患者|患儿|病人|产妇|孕妇|伤者|死者|首例|咨客|来访者|参保人)")
# matches: "65", "65 "
# not: "3.5", "岁"
_AGE = re.compile(r"(?<![\d.])\d{1,3} ?$")


def name_before_sex(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name before 男 or 女, between which are only marks: 刘桂香 女 77."""
    return _name_before(text, start, free_from)


def name_before_age(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name before a number of years, between which are only marks: 宋桂兰，65岁."""
    digits = _AGE.search(text, max(free_from, start - 5), start)
    return _name_before(text, digits.start(), free_from) if digits else []


def _name_before(text: str, end: int, free_from: int) -> list[Span]:
    left = max(free_from, end - _WINDOW)
    run = _RUN.search(text[left:end])
    if run is None:
        return []
    if run["latin"] or "·" in run["han"]:
        kind = "latin" if run["latin"] else "han"
        return [(left + run.start(kind), left + run.end(kind))]
    role = _ROLE.match(run["han"])
    start, stop = left + run.start("han") + (role.end() if role else 0), left + run.end("han")
    return [(start, stop)] if _is_person(text[start:stop]) else []


def _is_person(name: str) -> bool:
    """Return True for a surname and one or two characters that are no words of a sentence: not 黄疸, 高血压."""
    surname = surname_length(name, 0)
    given = name[surname:]
    if not surname or not 1 <= len(given) <= 2 or is_stop(name) or is_nobody(name):
        return False
    words = rjieba.tag(name, False)
    if len(words) == 1:
        return words[0][1] in ("nr", "nrfg")
    return GIVEN.issuperset(given) or (len(given) == 2 and all(len(word) == 1 for word, _ in words))
