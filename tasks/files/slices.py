"""Slices: the part of one file of a corpus that one worker reads, as plain values that are sent between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

KINDS = ("txt", "jsonl", "ndjson", "json", "csv", "tsv", "parquet", "html", "htm", "xlsx", "docx", "pdf", "zip")
"""Endings of supported file names; all but zip may also be compressed."""

READ_IN_PLACES = ("parquet", "xlsx", "docx", "pdf")
"""Kinds whose readers go to and fro in a file."""

COMPRESSIONS = (".gz", ".zst", ".bz2")

ARCHIVES = ("zip", "tar", "tgz", "tbz2", "txz", "7z", "rar")
"""Endings of archives. Only a zip is opened, and no archive inside another one."""

_SAME_KIND = {"ndjson": "jsonl", "htm": "html"}

Splitting = Literal["file", "packed", "blank_lines", "lines"]


class RowOfSheet(int):
    """The number of a row in a workbook of several sheets, with the title of its sheet; empty for a single sheet."""

    sheet: str

    def __new__(cls, number: int, sheet: str) -> RowOfSheet:
        row = super().__new__(cls, number)
        row.sheet = sheet
        return row


def kind_of(name: str) -> str:
    """Return the kind of a file by its name, one of `KINDS` (.ndjson is jsonl, .htm is html), or an empty string."""
    suffix = name.lower().removesuffix(compression_of(name)).rpartition(".")[2]
    return _SAME_KIND.get(suffix, suffix) if suffix in KINDS else ""


def compression_of(name: str) -> str:
    """Return the compression of a file by its name, one of `COMPRESSIONS`, or an empty string."""
    return next((end for end in COMPRESSIONS if name.lower().endswith(end)), "")


@dataclass(frozen=True)
class Member:
    """Position of a file in a zip archive; sizes and checksum are -1 if the archive does not give them."""

    offset: int
    """Position of its header in the archive."""
    method: int
    """Number of its compression method in the zip format."""
    packed: int = -1
    """Compressed bytes."""
    size: int = -1
    """Decompressed bytes."""
    crc: int = -1
    """CRC-32 of the decompressed bytes."""
    refusal: str = ""
    """Reason not to read it, as in rejects."""
    detail: str = ""
    """Detail of the refusal."""


@dataclass(frozen=True)
class Slice:
    """A file, or a range of one: bytes of a text file, row groups of a Parquet file.

    The compared fields say what is read and how: equal slices have equal rows wherever their files are stored.
    """

    name: str
    """Path relative to the corpus; of a member `archive.zip/member`."""
    kind: str
    """One of `KINDS`, or empty for an unsupported file."""
    sha256: str
    """Hash of the whole file, or of a member's archive."""
    encoding: str = ""
    """Encoding of the file; empty to detect it."""
    splitting: Splitting = "file"
    """Rule that cuts a .txt, a .docx or a .pdf into documents."""
    start: int = 0
    """First byte or row group."""
    end: int | None = None
    """End of the range, or None for the end of the file."""
    first_row: int = 1
    """Number of the first line or Parquet row, counted from 1."""
    sub_domain: str = ""
    """`RawFile.sub_domain` of its file."""

    path: str = field(default="", compare=False)
    """Local path, or URI."""
    size: int = field(default=0, compare=False)
    """Bytes of the file."""
    stamp: str = field(default="", compare=False)
    """Stamp of its state; a different one shows that it was written since."""
    member: Member | None = field(default=None, compare=False)
    """Position in its archive."""


@dataclass(frozen=True)
class Problem:
    """Reason why a row has no document."""

    reason: str
    """Short name of the reason, by which rejects are counted: `invalid_json`."""
    detail: str
    """What is wrong in this row, and the remedy."""
    text: str = ""
    """Text of the row."""
