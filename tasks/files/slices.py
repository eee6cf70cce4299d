"""Slices: what one worker reads of one file of a corpus, as plain values that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

KINDS = ("txt", "jsonl", "ndjson", "json", "csv", "tsv", "parquet", "html", "htm", "zip")
"""Ends of names that are read; each but zip also compressed."""

COMPRESSIONS = (".gz", ".zst", ".bz2")

ARCHIVES = ("zip", "tar", "tgz", "tbz2", "txz", "7z", "rar")
"""Ends of names that hold further files: a zip is opened, but nothing within another archive."""

_SAME_KIND = {"ndjson": "jsonl", "htm": "html"}

Splitting = Literal["file", "packed", "blank_lines", "lines"]


def kind_of(name: str) -> str:
    """The kind of a file by its name, one of `KINDS` (.ndjson is jsonl, .htm is html); empty for others."""
    suffix = name.lower().removesuffix(compression_of(name)).rpartition(".")[2]
    return _SAME_KIND.get(suffix, suffix) if suffix in KINDS else ""


def compression_of(name: str) -> str:
    """The compression of a file by its name, one of `COMPRESSIONS`; empty for none."""
    return next((end for end in COMPRESSIONS if name.lower().endswith(end)), "")


@dataclass(frozen=True)
class Member:
    """Where a file of a zip archive lies; sizes are -1 where the archive does not say them."""

    offset: int
    method: int
    packed: int = -1
    size: int = -1
    crc: int = -1
    refusal: str = ""
    """Reason not to read it."""
    detail: str = ""


@dataclass(frozen=True)
class Slice:
    """A file, or a range of one: bytes of a text file, row groups of a Parquet file.

    The fields that are compared say what is read and how: equal slices hold equal rows wherever they lie.
    """

    name: str
    """Its place below the corpus; of a member `archive.zip/member`."""
    kind: str
    """One of `KINDS`, or empty for a file that nothing here reads."""
    sha256: str
    """Of the whole file; of a member, of its archive."""
    encoding: str = ""
    """Empty to tell it from the file."""
    splitting: Splitting = "file"
    """How a .txt becomes documents."""
    start: int = 0
    end: int | None = None
    """None reads to the end of the file."""
    first_row: int = 1
    """Number of the first line, or of the first Parquet row."""
    sub_domain: str = ""
    """`RawFile.sub_domain` of its file."""

    path: str = field(default="", compare=False)
    """Local path, or URI."""
    size: int = field(default=0, compare=False)
    """Bytes of the file."""
    stamp: str = field(default="", compare=False)
    """What its storage knows it by; another one tells that it was written since."""
    member: Member | None = field(default=None, compare=False)
    """Where it lies in its archive."""


@dataclass(frozen=True)
class Problem:
    """Why there is no document here."""

    reason: str
    detail: str
    text: str = ""
