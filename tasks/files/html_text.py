"""The text of an HTML page: its title, and the visible text of its body.

The page is read tag by tag, without building a tree. Time is linear in the page however it is nested or broken, and
memory is a few times the page.
"""

from __future__ import annotations

import html
import re
from collections import Counter

from tasks.text.raised_digits import with_raised_digits

_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?>[^>=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|=)*+)>""")
"""A tag whose quoted attributes may contain `>`: `<p title="a > b">`, all of it."""
_PLAIN_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)[^>]*+>")
"""A tag up to the next `>`: `<p title="a >` of `<p title="a > b`, where the quote has no end."""
_TAG_START = re.compile(r"</?[a-zA-Z]")
"""`<p` or `</p`, but not the `< 5` of `收缩压 < 5`."""
_SPACES = re.compile(r"[^\S\u3000]+")
"""White space of the source: a line end and the blanks that indent the next line, but not an ideographic space."""
_WIDE = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]"
"""A Chinese character or a full-width sign: `痛` or `，`."""
_WRAPPED = re.compile(rf"(?<={_WIDE})[ \t]*+[\r\n][ \t\r\n]*+(?={_WIDE})")
"""A line end between two Chinese characters, which is not a blank of the text: that of `头\\n  痛`."""
_BLANKS = re.compile(r" {2,}")
"""Two blanks or more: those of `头痛  三天`."""
_TABS = re.compile(r" ?\t[ \t]*")
"""The tab between two cells of a table, with blanks around it: ` \\t `."""

FAILURES = 20
"""Tags with unclosed quotes after which quotes are ignored: each of them costs a search through the whole rest."""

RAW = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
"""Elements that contain no tags: they end at their end tag."""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


HIDDEN = _names(
    "script style textarea title xmp iframe noembed noframes noscript template svg select button datalist canvas "
    "object audio video"
)
"""Elements that are not visible as text."""

AROUND = _names("nav header footer form aside dialog")
"""Elements around a page's text. Some pages are a single form: without any other text, the text in these counts."""

VOID = _names("area base br col embed hr img input link meta param source track wbr")
INLINE = _names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q ruby rb rp rt s samp small "
    "span strike strong sub sup time tt u var wbr img input"
)
"""Elements that do not begin a new line; all others do."""

_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW}
"""Beginnings of the end tags of `RAW`: `</script` of `</SCRIPT >`."""


def page_text(page: str) -> tuple[str, str]:
    """Return title and text of a page: a line for each block, with tabs between the cells of a table's row."""
    reader = _Reader()
    reader.read(with_raised_digits(page))
    text = _lines(reader.text) or _lines(reader.around)
    title = " ".join("".join(reader.title).split()) or " ".join("".join(reader.heading).split())
    return title, text


class _Reader:
    """State of reading one page: pieces of text, and the elements that are open."""

    def __init__(self) -> None:
        self.title: list[str] = []
        self.heading: list[str] = []
        """Text of the first h1."""
        self.text: list[str] = []
        self.around: list[str] = []
        """Text of the elements in `AROUND`."""
        self._open: list[str] = []
        """Names of the open elements, the innermost last."""
        self._count: Counter[str] = Counter()
        """Number of open elements of each name."""
        self._hidden = self._framed = self._preformatted = 0
        """Numbers of open elements of `HIDDEN`, of `AROUND`, and of pre."""
        self._headings = self._failures = 0
        """Numbers of h1 begun, and of tags with unclosed quotes."""

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
        """Read the markup at the `<` at `place`, and return the position after it."""
        if _TAG_START.match(page, place):
            return self._tag(page, place)
        if page.startswith("<!--", place):
            end_of_comment = page.find("-->", place + 2)  # `<!-->` is a whole comment
            return end_of_comment + 3 if end_of_comment >= 0 else len(page)
        if page.startswith(("<!", "<?", "</"), place):  # `<!DOCTYPE html>`, `<?xml version="1.0"?>`
            end_of_other = page.find(">", place)
            return end_of_other + 1 if end_of_other >= 0 else len(page)
        self._put("<")  # a sign of the text: 收缩压 < 90
        return place + 1

    def _tag(self, page: str, place: int) -> int:
        """Read the tag at `place`, with the content of an element of `RAW`, and return the position after it."""
        tag = _TAG.match(page, place) if self._failures < FAILURES else None
        if tag is None:
            self._failures += 1
            tag = _PLAIN_TAG.match(page, place)
        if tag is None:  # there is no `>` in the rest of the page
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
        # The title of a picture inside the page is not that of the page.
        if name == "title" and not self.title and "svg" not in self._open[-2:]:
            self.title.append(html.unescape(page[tag.end() : stop]))
        return stop

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
        # Elements left open inside end with it: the li of `<ul><li>头痛</ul>`.
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
