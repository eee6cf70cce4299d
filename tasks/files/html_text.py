"""The text of an HTML page: its title, and what a reader sees of its body.

Read tag by tag, as a stream: no tree is built, so that time is linear in the page however it is nested or broken, and
memory is a few times the page.
"""

from __future__ import annotations

import html
import re
from collections import Counter

from tasks.text.raised_digits import with_raised_digits

_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?>[^>=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|=)*+)>""")
_PLAIN_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)[^>]*+>")
_LETTER = re.compile(r"</?[a-zA-Z]")
_SPACES = re.compile(r"[^\S\u3000]+")
# A line end of the source between two Chinese characters is no blank of the text.
_WIDE = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]"
_WRAPPED = re.compile(rf"(?<={_WIDE})[ \t]*+[\r\n][ \t\r\n]*+(?={_WIDE})")
_BLANKS = re.compile(r" {2,}")
_TABS = re.compile(r" ?\t[ \t]*")

FAILURES = 20
"""Tags whose quotes have no end, after which quotes are no longer looked at: each costs a look at the whole rest."""

RAW = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
"""Elements that hold no tags: they end where their end tag is written."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


HIDDEN = _names(
    "script style textarea title xmp iframe noembed noframes noscript template svg select button datalist canvas "
    "object audio video"
)
"""Elements that no reader sees as text."""

AROUND = _names("nav header footer form aside dialog")
"""Elements that stand around a page's text. Some pages are one form from end to end: where nothing else is there,
what stands in these is the text."""

VOID = _names("area base br col embed hr img input link meta param source track wbr")
INLINE = _names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q ruby rb rp rt s samp small "
    "span strike strong sub sup time tt u var wbr img input"
)
"""Elements that do not begin a new line; all others do."""

_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW}


def page_text(page: str) -> tuple[str, str]:
    """Title and text of a page; its lines are its blocks, cells of a table's row have tabs between them."""
    reader = _Reader()
    reader.read(with_raised_digits(page))
    text = _lines(reader.text) or _lines(reader.around)
    title = " ".join("".join(reader.title).split()) or " ".join("".join(reader.heading).split())
    return title, text


class _Reader:
    def __init__(self) -> None:
        self.title: list[str] = []
        self.heading: list[str] = []
        """What the first h1 holds."""
        self.text: list[str] = []
        self.around: list[str] = []
        """What stands in elements of `AROUND`."""
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._hidden = self._framed = self._preformatted = self._headings = self._failures = 0

    def read(self, page: str) -> None:
        place = 0
        while place < len(page):
            bracket = page.find("<", place)
            if bracket < 0:
                self._put(page[place:])
                return
            if bracket > place:
                self._put(page[place:bracket])
            place = self._markup(page, bracket)

    def _markup(self, page: str, place: int) -> int:
        """Take the markup that begins here; returns the place after it."""
        if _LETTER.match(page, place):
            tag = _TAG.match(page, place) if self._failures < FAILURES else None
            if tag is None:
                self._failures += 1
                tag = _PLAIN_TAG.match(page, place)
            if tag is None:  # no tag ends behind this place
                self._put(page[place:])
                return len(page)
            name = tag[2].lower()
            if tag[1]:
                self._close(name)
                return tag.end()
            self._start(name)
            if name not in RAW:
                return tag.end()
            end = _RAW_ENDS[name].search(page, tag.end())
            stop = end.start() if end else len(page)
            if name == "title" and not self.title and "svg" not in self._open[-2:]:
                self.title.append(html.unescape(page[tag.end() : stop]))
            return stop
        if page.startswith("<!--", place):
            end_of_comment = page.find("-->", place + 2)
            return end_of_comment + 3 if end_of_comment >= 0 else len(page)
        if page.startswith(("<!", "<?", "</"), place):
            end_of_other = page.find(">", place)
            return end_of_other + 1 if end_of_other >= 0 else len(page)
        self._put("<")
        return place + 1

    def _start(self, name: str) -> None:
        self._break(name)
        if name in VOID:
            return
        self._open.append(name)
        self._count[name] += 1
        self._enter(name, 1)

    def _close(self, name: str) -> None:
        if not self._count[name]:
            self._break(name, is_start=False)
            return
        # What was left open within ends with it.
        while True:
            last = self._open.pop()
            self._count[last] -= 1
            self._enter(last, -1)
            if last == name:
                break
        self._break(name, is_start=False)

    def _enter(self, name: str, change: int) -> None:
        self._hidden += change * (name in HIDDEN)
        self._framed += change * (name in AROUND)
        self._preformatted += change * (name == "pre")
        if name == "h1":
            self._headings += change == 1

    def _break(self, name: str, is_start: bool = True) -> None:
        if name in ("td", "th"):
            self._out("\t" if is_start else "")
        elif name not in INLINE:
            self._out("\n")

    def _put(self, source: str) -> None:
        if self._hidden:
            return
        if not self._preformatted:
            source = _SPACES.sub(" ", _WRAPPED.sub("", source))
        text = html.unescape(source)
        if self._count["h1"] and self._headings == 1:
            self.heading.append(text)
        self._out(text)

    def _out(self, text: str) -> None:
        if text and not self._hidden:
            (self.around if self._framed else self.text).append(text)


def _lines(pieces: list[str]) -> str:
    text = _BLANKS.sub(" ", "".join(pieces).replace("\xa0", " "))
    lines = (line.strip() for line in _TABS.sub("\t", text).split("\n"))
    return "\n".join(line for line in lines if line)
