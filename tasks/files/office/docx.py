"""The text of a DOCX file: its paragraphs in order, and the rows of its tables with tabs between the cells.

The XML is read as a stream by expat, part by part of the archive, without building a tree. A file that declares
entities is refused, because they can multiply what they stand for, and so is one with more elements than office
programs write (elements.py). Headers, footers, notes and comments are stored in other parts and are not read, nor are
deleted text and the numbers that Word gives to paragraphs of a list.

Time is linear in the file. Memory holds one paragraph or one row of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO
from xml.parsers import expat

from infra.limits import limits
from tasks.files.archives import list_members, member_blocks
from tasks.files.compression import COPY_AGAIN, DamagedArchiveError
from tasks.files.office.elements import guarded
from tasks.files.office.package import UnreadableDocumentError, refuse_other_formats
from tasks.files.slices import Member
from tasks.text.raised_digits import in_characters

_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main ",
    "http://purl.oclc.org/ooxml/wordprocessingml/main ",
)
_MATH = (
    "http://schemas.openxmlformats.org/officeDocument/2006/math ",
    "http://purl.oclc.org/ooxml/officeDocument/math ",
)
_ALTERNATIVES = "http://schemas.openxmlformats.org/markup-compatibility/2006 "
"""Namespaces of elements, as expat gives them before the name."""

_SKIPPED = frozenset(("pPr", "moveFrom", "sectPr", "tblPr", "tblGrid", "trPr", "tcPr", "instrText"))
"""Elements without text to show: formats (whose tabs are tab stops), and where moved text has been."""
ELEMENT = 64
"""Characters that take about as much memory as an element, of which cells and pieces of text are made."""
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def docx_blocks(file: BinaryIO) -> Iterator[str]:
    """Yield the paragraphs and table rows of a document that is open for reading at any position.

    Raises:
        UnreadableDocumentError: it is no DOCX file, or protected by a password.
        DamagedArchiveError: after the last readable paragraph, if the archive is damaged or a bomb.
    """
    refuse_other_formats(file, "docx")
    members, _ = list_members(file)
    parts = {name: member for name, member in members}
    main = _main_part(file, parts)
    reader = _Reader()
    for block in _blocks(file, main, parts[main]):
        reader.feed(block)
        yield from reader.taken()
        if reader.held > limits().row_bytes:
            raise UnreadableDocumentError(
                f"a paragraph is longer than {limits().row_bytes:,} characters, or a row of a table, counting each "
                f"element as {ELEMENT} of them; split it"
            )
    reader.feed(b"", is_last=True)
    yield from reader.taken()


def _main_part(file: BinaryIO, parts: Mapping[str, Member]) -> str:
    """Return the name of the part with the text, as the list of content types says."""
    if "[Content_Types].xml" not in parts:
        raise UnreadableDocumentError(f"the file cannot be read as DOCX: it has no list of its parts; {COPY_AGAIN}")
    found: list[str] = []

    def start(name: str, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("ContentType", "")
        if name.endswith(" Override") and "word" in kind and kind.endswith(".main+xml"):
            found.append(attributes.get("PartName", "").lstrip("/"))

    parser = _parser()
    parser.StartElementHandler = start
    for block in _blocks(file, "[Content_Types].xml", parts["[Content_Types].xml"]):
        _parse(parser, block)
    main = next((name for name in found if name in parts), "word/document.xml")
    if main not in parts:
        raise UnreadableDocumentError("the file cannot be read as DOCX: it has no text part; save it again as .docx")
    return main


def _blocks(file: BinaryIO, name: str, member: Member) -> Iterator[bytes]:
    if member.refusal:
        error = DamagedArchiveError(member.detail)
        error.reason = member.refusal
        raise error
    size = file.seek(0, 2)
    stored = size if member.packed < 0 else min(member.packed, size)
    return guarded(member_blocks(file, member), name, stored)


def _parser() -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.EntityDeclHandler = _refuse_entities
    parser.buffer_text = True
    return parser


def _refuse_entities(name: str, *_: object) -> None:
    raise UnreadableDocumentError(f"the file declares the entity {name[:40]!r}, which no office program does")


def _parse(parser: expat.XMLParserType, block: bytes, is_last: bool = False) -> None:
    try:
        parser.Parse(block, is_last)
    except (expat.ExpatError, ValueError) as error:  # ValueError: an unknown encoding
        raise UnreadableDocumentError(f"the file cannot be read as DOCX: {error}; save it again") from error


class _Reader:
    """State of reading one part: the open paragraphs, cells and rows."""

    def __init__(self) -> None:
        self.held = 0
        """Characters of the open paragraphs and rows, their elements counted as `ELEMENT` each."""
        self._done: list[str] = []
        self._paragraphs: list[list[str]] = []
        """Pieces of the open paragraphs; one in a text box is inside another."""
        self._rows: list[list[list[str]]] = []
        """Open rows of tables: their cells, each with its paragraphs; a cell may contain a table."""
        self._skipped = 0
        self._is_text = False
        self._raised: bool | None = None
        """True in a raised run, False in a lowered one."""
        self._parser = _parser()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, block: bytes, is_last: bool = False) -> None:
        _parse(self._parser, block, is_last)

    def taken(self) -> list[str]:
        """Return the finished paragraphs and rows, once."""
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if self._rows or self._paragraphs:
            self.held += ELEMENT
        if self._skipped or (local in _SKIPPED and name.startswith(_WORD)) or name == f"{_ALTERNATIVES}Fallback":
            self._skipped += 1
        elif name.startswith(_MATH):
            self._is_text = local == "t"
        elif not name.startswith(_WORD):
            return
        elif local == "p":
            self._paragraphs.append([])
        elif local == "tr":
            self._rows.append([])
        elif local == "tc" and self._rows:
            self._rows[-1].append([])
        elif local == "r":
            self._raised = None
        elif local == "vertAlign":
            value = next((value for key, value in attributes.items() if key.endswith(" val")), "")
            self._raised = {"superscript": True, "subscript": False}.get(value)
        elif local == "t":
            self._is_text = True
        elif local in _SIGNS:
            self._put(_SIGNS[local])

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        local = name.rpartition(" ")[2]
        if local == "t":
            self._is_text = False
        elif not name.startswith(_WORD):
            return
        elif local == "p" and self._paragraphs:
            self._emit("".join(self._paragraphs.pop()))
        elif local == "tr" and self._rows:
            cells = [
                " ".join(filter(None, (text.replace("\n", " ").strip() for text in cell))) for cell in self._rows.pop()
            ]
            self._emit("\t".join(cells).rstrip("\t"))

    def _text(self, text: str) -> None:
        if self._is_text and not self._skipped:
            shown = None if self._raised is None else in_characters(text, self._raised)
            self._put(text if shown is None else shown)

    def _put(self, text: str) -> None:
        if self._paragraphs:
            self._paragraphs[-1].append(text)
            self.held += len(text)

    def _emit(self, text: str) -> None:
        """Give a paragraph to the cell that it is in, or to the caller."""
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text)
            return
        self._done.append(text)
        if not self._rows and not self._paragraphs:
            self.held = 0
