"""Rules that clean a text, one after the other, until none of them finds anything.

A rule runs only if the text holds what it looks for, and a text that no rule changes is read once. Every pattern is
linear in the text: it stops at what may begin another match, or at a bound.
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
"""Passes after which a text that still uncovers markup counts as an attack, and loses all its markup characters.

A text that changes for as many passes more is given up: nothing is left of it, and the document is dropped as empty.
"""

MAX_JOINS = 4
"""Passes of joining lines, each on the outcome of the one before; prose with broken lines does not need more."""

# matches: ">", " class=\"a\">", " />"
# not: " 且 b"
_ATTRIBUTES = r"(?:\s[^<>\n=]{0,100}=[^<>\n]{0,500})?\s*/?>"
"""The rest of a tag behind its name. Tags need a known name and attributes: 收缩压<a 且 b>c holds none."""
# matches: "<p>", "</div>", "<h2 id=\"a\">", "<br/>"
# not: "<b>", "<目录>", "P<p 且 x>1"
_BLOCK = re.compile(
    r"</?(?:p|br|div|li|ul|ol|tr|table|h[1-6]|hr|section|article|blockquote|pre|dd|dt|dl|title)" + _ATTRIBUTES,
    re.IGNORECASE,
)
# matches: "<td>", "</th>", "<TD colspan=2>"
# not: "<tr>", "<the>"
_CELL = re.compile(r"</?t[dh]" + _ATTRIBUTES, re.IGNORECASE)
"""Cells become a blank: 12</td><td>5 must not become 125."""
# matches: "<b>", "</span>", "<img src=\"a.png\">", "<!-- a -->", "<?xml version=\"1.0\"?>", "<o:p>"
# not: "<目录>", "a<5", "收缩压<a 且 b>c"
_TAG = re.compile(
    r"</?(?:a|b|i|u|s|em|strong|span|font|img|sup|sub|small|big|tbody|thead|html|head|body|meta|link|script|style|"
    r"input|form|label|center|code|iframe|video|audio|source|button|option|select|textarea|del|ins|mark|nav|header|"
    r"footer|main|(?:o|v|w|m|st1):[a-z]{1,20})" + _ATTRIBUTES + r"|<!--[^<>]{0,500}-->"
    r"|<\?xml[^<>]{0,300}>|<!\[(?:if[^<>\[\]]{0,200}|endif)\]>",
    re.IGNORECASE,
)
# matches: "<!--[if gte mso 9]><xml>1</xml><![endif]-->"
# not: "<!--[if gte mso 9]><xml>1</xml>", "<!-- a -->"
_CONDITIONAL = re.compile(
    r"<!--\[if[^<>\[\]]{0,200}\]>(?:(?!<!--\[if|<!\[endif)[^\0]){0,20000}+<!\[endif\]-->", re.IGNORECASE
)
"""A comment that Word writes and no browser reads; it holds tags of its own."""
# matches: "<p", "</", "<!--", "<?xml"
# not: "<目录>", "a<5"
_TAG_BEGINS = re.compile("<[/!?a-z]", re.IGNORECASE)
"""Beginning of a tag; books write <目录>, and formulas a<5."""
# matches: "<script>", "</STYLE>", "<script type=\"a\">"
# not: "<scripture>"
_SCRIPT_BORDER = re.compile(r"<(/?)(script|style)" + _ATTRIBUTES, re.IGNORECASE)
# matches: "&amp;", "&amp;amp;", "&#38;#38;"
# not: "&lt;", "&"
_AMPERSANDS = re.compile(r"&(?:(?:amp|#38|#x26);)+", re.IGNORECASE)
# Of entities without a semicolon only those that pages often leave so: "a=1&para=2" holds no paragraph sign.
# matches: "&lt;", "&#8451;", "&#x2103;", "&nbsp", "&alpha;"
# not: "a=1&para=2", "A&E", "&ltd"
_ENTITY = re.compile(
    r"&(?:#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z]\w{1,31};|(?:nbsp|lt|gt|quot)(?![A-Za-z=;]))", re.ASCII
)
# matches: "https://a.cn/x?y=1", "www.a.cn", "a.b@mail.cn"
# not: "120@", "http:"
_ADDRESS = re.compile(
    r"(?:https?://|www\.)[\w\-./?%&=#:~+,;@!]+|(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,64}(?:\.[\w\-]{1,64})+",
    re.ASCII | re.IGNORECASE,
)
# matches: "\r\n", "\r", "\u2028"
# not: "\n"
_LINE_END = re.compile(f"\r\n|[{LINE_END}]")
# matches: "\t", "\u3000", "\u00a0"
# not: " ", "\n"
_BLANK = re.compile(f"[{BLANK}]")
_NO_MARKUP = str.maketrans("", "", "<>&@")


def clean_text(text: str, profile: str | CleanProfile = "ehealth") -> str:
    """Return the text cleaned by the rules of a profile; cleaning it again changes nothing.

    Args:
        text: any text.
        profile: name of a profile (ehealth, smedbert, embert), or rules.

    Raises:
        KeyError: there is no profile of that name.
    """
    return clean_counted(text, PROFILES[profile] if isinstance(profile, str) else profile, Counter())


def clean_all(texts: Sequence[str], rules: Sequence[CleanProfile]) -> list[tuple[str, Counter[str]]]:
    """Return each text cleaned by the rules of its profile, and counts of what they removed.

    A text without needs, by a glance at all of them, is not searched.
    """
    cleaned: list[tuple[str, Counter[str]]] = []
    nothing: Counter[str] = Counter()
    hinted = hints.may_hold(texts).tolist()
    # By identity, as few different profiles serve many texts and hashing one takes long.
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
"""Repairs that may bring a phrase about: characters move together, or others replace them."""


class Glance(NamedTuple):
    """Facts about a text before any rule has changed it."""

    needs: int
    """Bits of `Need`."""
    has_hint: bool
    """True if it may hold a phrase of a portal."""


def _minded(rules: CleanProfile) -> int:
    """Return the needs of a text that the rules of a profile serve."""
    minded = Need.CHARACTERS if rules.only_text else Need.CHARACTERS & ~Need.NO_TEXT
    minded |= Need.MARKUP if rules.strip_markup else 0
    minded |= Need.ADDRESSES if rules.strip_addresses else 0
    return minded | (Need.LINES if rules.join_lines or rules.collapse_repeats else 0)


def clean_counted(text: str, rules: CleanProfile, removed: Counter[str], known: Glance | None = None) -> str:
    """Clean a text like `clean_text`, and add to `removed` what each rule removes.

    Removing something may uncover more ("&amp;lt;b>", "<<b>b>"), so the rules run until none finds anything.

    Args:
        text: any text.
        rules: rules of its profile.
        removed: counts of characters and lines by rule, which grow.
        known: facts about the text from a glance at it, if there was one.
    """
    tidy = None  # the text after the rules for lines, which find nothing more in it
    searched = None  # the text without a phrase of a portal, as a glance has shown
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
    """Return only characters of text, composed, with single blanks and line ends. Doing it again changes nothing."""
    if not needs & Need.CHARACTERS:
        return text
    if needs & Need.LINE_ENDS:
        text = _LINE_END.sub("\n", text)
    if needs & Need.RADICALS:
        text = text.translate(radicals())
    if needs & Need.INVISIBLE:
        text = _counted("invisible", text, INVISIBLE.sub("", text), removed)
    if rules.only_text and needs & Need.NO_TEXT:  # before NFC, which joins what stood around a removed sign
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
    """Return the text without anything between <script> and </script>, or between <style> and </style>."""
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
