"""The rules that take something out of a text, one after the other, until nothing is left to take.

A rule runs only where the text holds what it looks for, and a text that no rule changed is read once. Every pattern
is linear in the text: it stops at what may begin another match, or at a bound.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tasks.clean.boilerplate import hints, without_boilerplate
from tasks.clean.characters import BLANK, INVISIBLE, LINE_END, NO_TEXT, Need, all_needs, needs_of, radicals
from tasks.clean.line_joining import join_lines
from tasks.clean.profile import PROFILES, CleanProfile
from tasks.clean.simplify import simplify
from tasks.text.raised_digits import with_raised_digits

MAX_PASSES = 8
"""After so many uncovered layers a text is no document but an attack: its markup characters all go.

What does not settle after as many more is given up: nothing is left of it, and the document is dropped as empty.
"""

MAX_JOINS = 4
"""Joins, each after what the one before brought together; a text that asks for more is no prose with broken lines."""

# Tags are known by their names and attributes: "收缩压<a 且 b>c" is none.
_ATTRIBUTES = r"(?:\s[^<>\n=]{0,100}=[^<>\n]{0,500})?\s*/?>"
_BLOCK = re.compile(
    r"</?(?:p|br|div|li|ul|ol|tr|table|h[1-6]|hr|section|article|blockquote|pre|dd|dt|dl|title)" + _ATTRIBUTES,
    re.IGNORECASE,
)
_CELL = re.compile(r"</?t[dh]" + _ATTRIBUTES, re.IGNORECASE)
"""Without a blank two cells with numbers would be one number."""
_TAG = re.compile(
    r"</?(?:a|b|i|u|s|em|strong|span|font|img|sup|sub|small|big|tbody|thead|html|head|body|meta|link|script|style|"
    r"input|form|label|center|code|iframe|video|audio|source|button|option|select|textarea|del|ins|mark|nav|header|"
    r"footer|main|(?:o|v|w|m|st1):[a-z]{1,20})" + _ATTRIBUTES + r"|<!--[^<>]{0,500}-->"
    r"|<\?xml[^<>]{0,300}>|<!\[(?:if[^<>\[\]]{0,200}|endif)\]>",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"<!--\[if[^<>\[\]]{0,200}\]>(?:(?!<!--\[if|<!\[endif)[^\0]){0,20000}+<!\[endif\]-->", re.IGNORECASE
)
"""A comment that Word writes and no browser reads; it holds tags of its own."""
_TAG_BEGINS = re.compile("<[/!?a-z]", re.IGNORECASE)
"""What each tag begins with: books write <目录>, and formulas a<5."""
_SCRIPT_BORDER = re.compile(r"<(/?)(script|style)" + _ATTRIBUTES, re.IGNORECASE)
_AMPERSANDS = re.compile(r"&(?:(?:amp|#38|#x26);)+", re.IGNORECASE)
# Without a semicolon only what pages leave unfinished often: "a=1&para=2" is no paragraph sign.
_ENTITY = re.compile(
    r"&(?:#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z]\w{1,31};|(?:nbsp|lt|gt|quot)(?![A-Za-z=;]))", re.ASCII
)
_ADDRESS = re.compile(
    r"(?:https?://|www\.)[\w\-./?%&=#:~+,;@!]+|(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,64}(?:\.[\w\-]{1,64})+",
    re.ASCII | re.IGNORECASE,
)
_LINE_END = re.compile(f"\r\n|[{LINE_END}]")
_BLANK = re.compile(f"[{BLANK}]")
_NO_MARKUP = str.maketrans("", "", "<>&@")


def clean_text(text: str, profile: str | CleanProfile = "ehealth") -> str:
    """The text after the rules of a profile; cleaning it again changes nothing.

    Raises:
        KeyError: there is no profile of that name.
    """
    return clean_counted(text, PROFILES[profile] if isinstance(profile, str) else profile, Counter())


def clean_all(texts: Sequence[str], rules: Sequence[CleanProfile]) -> list[tuple[str, Counter[str]]]:
    """Each text after the rules of its profile, and what they took away; a text without needs is not looked into."""
    cleaned: list[tuple[str, Counter[str]]] = []
    nothing: Counter[str] = Counter()
    hinted = hints.may_hold(texts).tolist()
    minded = {number: _minded(own) for number, own in {id(own): own for own in rules}.items()}
    for text, own, needs, has_hint in zip(texts, rules, all_needs(texts), hinted, strict=True):
        has_phrase = own.drop_boilerplate and (has_hint or own.boilerplate)
        if needs & minded[id(own)] or own.simplify or has_phrase:
            removed: Counter[str] = Counter()
            cleaned.append((clean_counted(text, own, removed, Glance(needs, has_hint)), removed))
        else:
            cleaned.append((text, nothing))
    return cleaned


_JOINING = Need.INVISIBLE | Need.COMPOSITION | Need.RADICALS | Need.NO_TEXT
"""Repairs after which characters stand side by side, or are there, that did not before."""


class Glance(NamedTuple):
    """What is known of a text before any rule has changed it."""

    needs: int
    """Bits of `Need`."""
    has_hint: bool
    """It may hold a phrase of a portal."""


def _minded(rules: CleanProfile) -> int:
    """The needs of a text that a profile minds."""
    minded = Need.CHARACTERS if rules.only_text else Need.CHARACTERS & ~Need.NO_TEXT
    minded |= Need.MARKUP if rules.strip_markup else 0
    minded |= Need.ADDRESSES if rules.strip_addresses else 0
    return minded | (Need.LINES if rules.join_lines or rules.collapse_repeats else 0)


def clean_counted(text: str, rules: CleanProfile, removed: Counter[str], known: Glance | None = None) -> str:
    """`clean_text`, which adds to `removed` what each rule took away; `known` is what a glance told of the text.

    Taking something away may uncover more ("&amp;lt;b>", "<<b>b>"): the rules run until none finds anything.
    """
    tidy = None  # the text after the rules for lines, which have nothing more to do in it
    searched = None  # the text of which a glance told that it holds no phrase of a portal
    for _ in range(2):
        for _ in range(MAX_PASSES):
            text = _tidy_characters(text, rules, removed, needs_of(text) if known is None else known.needs)
            searched = text if known is not None and not known.has_hint and not known.needs & _JOINING else None
            known = None
            bare = _strip(text, rules, removed)
            if bare != text:
                text = bare
                continue
            text = simplify(text) if rules.simplify else text
            if text == tidy:
                return text
            tidy = _tidy_lines(text, rules, removed, text is searched)
            if tidy == text:
                return text
            text = tidy
        text = _counted("markup", text, text.translate(_NO_MARKUP), removed)
    return ""


def _tidy_characters(text: str, rules: CleanProfile, removed: Counter[str], needs: int) -> str:
    """Characters that are text, composed, with one blank or line end between them. Doing it again changes nothing."""
    if not needs & Need.CHARACTERS:
        return text
    if needs & Need.LINE_ENDS:
        text = _LINE_END.sub("\n", text)
    if needs & Need.RADICALS:
        text = text.translate(radicals())
    if needs & Need.INVISIBLE:
        text = _counted("invisible", text, INVISIBLE.sub("", text), removed)
    if rules.only_text and needs & Need.NO_TEXT:
        text = _counted("symbols", text, NO_TEXT.sub("", text), removed)
    if needs & Need.COMPOSITION:
        text = unicodedata.normalize("NFC", text)
    if needs & Need.BLANKS:
        text = _BLANK.sub(" ", text)
    while "  " in text:
        text = text.replace("  ", " ")
    text = text.replace(" \n", "\n").replace("\n ", "\n")
    while "\n\n" in text:
        text = text.replace("\n\n", "\n")
    return text.strip()


def _strip(text: str, rules: CleanProfile, removed: Counter[str]) -> str:
    if rules.strip_markup:
        before = text
        if "<" in text and _TAG_BEGINS.search(text):
            text = with_raised_digits(_without_scripts(_CONDITIONAL.sub("", text) if "<!--[" in text else text))
            text = _TAG.sub("", _CELL.sub(" ", _BLOCK.sub("\n", text)))
        if "&" in text:
            text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), _AMPERSANDS.sub("&", text))
        _counted("markup", before, text, removed)
    if rules.strip_addresses and ("://" in text or "@" in text or "www." in text or "WWW." in text):
        text = _counted("addresses", text, _ADDRESS.sub("", text), removed)
    return text


def _without_scripts(text: str) -> str:
    """The text without what stands between <script> and </script>, or between <style> and </style>."""
    kept, start, opened = [], 0, None
    for border in _SCRIPT_BORDER.finditer(text):
        name = border[2].lower()
        if not border[1] and opened is None:
            opened = (name, border.start())
        elif border[1] and opened is not None and opened[0] == name:
            kept.append(text[start : opened[1]])
            start, opened = border.end(), None
    return "\n".join([*kept, text[start:]])


def _tidy_lines(text: str, rules: CleanProfile, removed: Counter[str], without_hint: bool) -> str:
    filtered = _filter_lines(text, rules, removed, without_hint)
    if not rules.join_lines:
        return filtered
    text = filtered
    for _ in range(MAX_JOINS):
        joined = join_lines(text)
        if joined == text:
            removed["lines_joined"] += max(0, filtered.count("\n") - text.count("\n"))
            return text
        text = _filter_lines(joined, rules, Counter())
    return filtered


def _filter_lines(text: str, rules: CleanProfile, removed: Counter[str], without_hint: bool = False) -> str:
    if rules.drop_boilerplate and (rules.boilerplate or not without_hint):
        text = _counted("boilerplate", text, without_boilerplate(text, rules.boilerplate), removed, lines=True)
    if rules.collapse_repeats:
        lines = text.split("\n")
        kept = [line for place, line in enumerate(lines) if not place or line != lines[place - 1]]
        if len(kept) < len(lines):
            text = _counted("repeats", text, "\n".join(kept), removed, lines=True)
    return text


def _counted(what: str, before: str, after: str, removed: Counter[str], lines: bool = False) -> str:
    if before != after:
        removed[f"characters_{what}"] += len(before) - len(after)
        if lines:
            removed[f"lines_{what}"] += before.count("\n") - after.count("\n") + (before != "" and after == "")
    return after
