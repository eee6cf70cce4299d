"""Limits on the XML of office files: what its elements take of memory and time is bounded before a tree is built of it.

A file of 59 kB has room for 20 million elements, of which a tree takes 5 GB. Expat reads a tag again with every block
until it ends, so a tag of 20 MB takes a minute. Neither is near what programs write: a cell has some two elements and
two bytes in the file.

Time is linear in the XML, about a microsecond per element. Memory holds a tag.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, cast
from xml.parsers import expat

from infra.limits import limits
from tasks.files.office.package import UnreadableDocumentError

BLOCK = 1 << 16
"""Bytes that are checked at once."""

MOST_ATTRIBUTES = 256
MOST_DEPTH = 256
MOST_NAMES = 10_000
"""Different names of elements and attributes of a part, which expat keeps. The formats have some hundreds."""
MOST_IN_ITEM = 1 << 18
"""Elements of a row of a sheet, which has at most 16,384 cells, or of a string."""
LONGEST_TAG = 1 << 20
"""Bytes of a tag or comment. Lists of areas within a tag are the longest: some 100 kB."""
LONGEST_TEXT = 16 << 20
"""Bytes between two tags of a workbook: Excel has at most 32,767 characters in a cell."""

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main "
_ITEMS = frozenset((f"{_SHEET}row", f"{_SHEET}si"))
"""Elements that openpyxl empties once it has read them: rows and strings."""

_REMEDY = "save it again, or raise YIWEN_LIMITS if you trust it"


class XmlBombError(UnreadableDocumentError):
    """The XML of an office file asks for more than what office programs write."""


class XmlGuard:
    """Check of a part's XML, which is fed to it before it is parsed.

    Args:
        part: name of the part, for messages.
        stored: compressed bytes of the part.
        is_kept: whether a tree is built of the part, as openpyxl does.
    """

    def __init__(self, part: str, stored: int, is_kept: bool) -> None:
        free = limits().xml_elements
        self._part, self._is_kept = part, is_kept
        self._most_kept, self._most_items = max(free, 2 * stored), max(4 * free, 2 * stored)
        self._most = max(8 * free, 8 * stored)
        self._elements = self._outside = self._items = self._depth = 0
        self._item_depth = self._item_start = 0
        """Depth of the open row or string, 0 outside of them, and the elements before it."""
        self._fed = self._silent = 0
        """Bytes so far, and those of them since the last tag."""
        self._parser: Any = expat.ParserCreate(namespace_separator=" ")
        self._parser.ordered_attributes = True
        self._parser.EntityDeclHandler = self._refuse_entities
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, data: bytes) -> None:
        """Check the next bytes of the part.

        Raises:
            XmlBombError: the part exceeds a limit.
        """
        for start in range(0, len(data), BLOCK):
            if self._parser is not None:
                self._feed(data[start : start + BLOCK])

    def _feed(self, block: bytes) -> None:
        before = self._elements, self._depth
        try:
            self._parser.Parse(block, False)
        except (expat.ExpatError, ValueError):
            # A picture, or damage that the reader meets at the same byte and reports.
            self._parser = None
            return
        self._fed += len(block)
        self._silent = self._silent + len(block) if before == (self._elements, self._depth) else 0
        if self._fed - max(0, self._parser.CurrentByteIndex) > LONGEST_TAG:
            raise self._error(f"a tag or comment of more than {LONGEST_TAG:,} bytes")
        if self._is_kept and self._silent > LONGEST_TEXT:
            raise self._error(f"a text of more than {LONGEST_TEXT:,} bytes")
        if len(self._parser.intern) > MOST_NAMES:
            raise self._error(f"more than {MOST_NAMES:,} names of elements and attributes")
        if self._elements > self._most:
            raise self._error(f"more than {self._most:,} elements")
        if self._is_kept and self._items > self._most_items:
            raise self._error(f"more than {self._most_items:,} rows or strings")
        if self._is_kept and self._outside > self._most_kept:
            raise self._error(f"more than {self._most_kept:,} elements outside of rows and strings")

    def _start(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._item_depth:
            if self._elements - self._item_start > MOST_IN_ITEM:
                raise self._error(f"a row or string of more than {MOST_IN_ITEM:,} elements")
        elif name in _ITEMS:
            self._item_depth, self._item_start = self._depth, self._elements
            self._items += 1
        else:
            self._outside += 1
        if self._depth > MOST_DEPTH:
            raise self._error(f"more than {MOST_DEPTH} elements within one another")
        if len(attributes) > 2 * MOST_ATTRIBUTES:
            raise self._error(f"an element of more than {MOST_ATTRIBUTES} attributes")

    def _end(self, name: str) -> None:
        if self._depth == self._item_depth:
            self._item_depth = 0
        self._depth -= 1

    def _refuse_entities(self, name: str, *_: object) -> None:
        raise XmlBombError(f"the file declares the entity {name[:40]!r}, which no office program does")

    def _error(self, what: str) -> XmlBombError:
        return XmlBombError(f"its part {self._part} has {what}, which office programs do not write; {_REMEDY}")


def guarded(blocks: Iterator[bytes], part: str, stored: int) -> Iterator[bytes]:
    """Yield the blocks of a part that is read as a stream, each once it is checked."""
    guard = XmlGuard(part, stored, is_kept=False)
    for block in blocks:
        guard.feed(block)
        yield block


class GuardedArchive(zipfile.ZipFile):
    """An archive whose parts are checked while they are read, each until it was read to its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._checked: set[str] = set()
        super().__init__(file)

    def open(self, name: str | zipfile.ZipInfo, *args: Any, **others: Any) -> IO[bytes]:
        """Open a part for reading."""
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        part = super().open(name, *args, **others)
        if info.filename in self._checked:
            return part
        stored = min(info.compress_size, self.start_dir)  # what the archive says of a part's size may be wrong
        guard = XmlGuard(info.filename, stored, is_kept=True)
        return cast(IO[bytes], _GuardedPart(part, guard, lambda: self._checked.add(info.filename)))


class _GuardedPart(io.RawIOBase):
    def __init__(self, part: IO[bytes], guard: XmlGuard, end: Callable[[], None]) -> None:
        self._opened, self._guard, self._end = part, guard, end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._opened.read(size)
        self._guard.feed(data)
        if not data and size:
            self._end()
        return data

    def close(self) -> None:
        self._opened.close()
        super().close()
