"""The plan that cuts the files of a corpus into units of work, reading as little of them as possible.

Small files share a unit. A big plain .txt or .jsonl is cut at line ends, a big Parquet file between row groups. A big
.csv or .json, a compressed or a UTF-16 file remains one unit, because its rows can only be found from its start. The
members of a zip are files of their own.

The name and content of each file decide whether a unit ends with it. Adding, changing or removing a file therefore
changes only the units around it, and the work done for the others is reused.

Time: plain files larger than a unit are read once to count their lines (about 1 GB/s). Of a zip only the list of
members is read, of all other files nothing. Memory holds the plan.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet

from tasks.files.access import WatchedFile, watched
from tasks.files.archives import list_members
from tasks.files.encodings import LINE_SAFE
from tasks.files.lines import ReturnsAsLineFeeds
from tasks.files.raw_input import RawFile
from tasks.files.rows import LONG_TEXT, encoding_in, has_returns
from tasks.files.slices import Member, Slice, Splitting, compression_of, kind_of

ASSUMED_COMPRESSION = 4
"""Assumed number of bytes in a compressed byte."""

BYTES_OF_OPENING = 1 << 12
"""Bytes that opening a file counts as, so that a million tiny files do not form a single unit."""

FILLING = 4
"""Largest size of a unit, in average sizes: almost all units end with a drawn file before they are full."""

TxtDocuments = Literal["auto", "file", "blank_lines", "lines"]


def plan_units(
    files: Iterable[RawFile], bytes_per_part: int, encoding: str | None, txt_documents: TxtDocuments
) -> list[tuple[Slice, ...]]:
    """Return units of slices in the order of the files.

    The plan depends only on the files and on these values, so any number of workers makes the same parts.

    Args:
        files: the files of the corpus.
        bytes_per_part: most bytes of a unit, unless a single slice is larger.
        encoding: encoding of all text files, or None to detect each file's.
        txt_documents: rule that cuts a .txt into documents.

    Raises:
        ChangedFileError: a file has changed since it was hashed.
    """
    units: list[tuple[Slice, ...]] = []
    unit: list[Slice] = []
    filled = 0
    for file in files:
        for piece, size in _slices(file, bytes_per_part, encoding, txt_documents):
            size += BYTES_OF_OPENING
            if unit and filled + size > bytes_per_part:
                units.append(tuple(unit))
                unit, filled = [], 0
            unit.append(piece)
            filled += size
            if _ends_unit(piece, size, bytes_per_part):
                units.append(tuple(unit))
                unit, filled = [], 0
    return [*units, tuple(unit)] if unit else units


def whole_files(file: RawFile, txt_documents: TxtDocuments = "auto") -> list[Slice]:
    """Return one slice for a whole file, or for each member of a zip; used by readers of few files."""
    return [piece for piece, _ in _slices(file, sys.maxsize, None, txt_documents)]


def _ends_unit(piece: Slice, size: int, bytes_per_part: int) -> bool:
    """Return True if a unit ends with this slice.

    The answer is drawn from the slice's name and content. Its probability grows with the slice's size, so that a unit
    ends once in a quarter of `bytes_per_part` on average.
    """
    identity = f"{piece.sha256}\0{piece.name}".encode("utf-8", "surrogateescape")
    drawn = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest(), "big") / 2**64
    # Of n bytes each ends a unit with probability FILLING / bytes_per_part: one of them does with 1 - e^(-n·that).
    return size >= bytes_per_part or drawn < -math.expm1(-FILLING * size / bytes_per_part)


def _slices(
    file: RawFile, bytes_per_part: int, encoding: str | None, txt_documents: TxtDocuments
) -> Iterator[tuple[Slice, int]]:
    """Yield the slices of one file, each with its approximate bytes."""
    whole = Slice(
        file.name,
        kind_of(file.name),
        file.sha256,
        encoding=encoding or "",
        sub_domain=file.sub_domain,
        path=file.path,
        size=file.size,
        stamp=file.stamp,
    )
    if whole.kind == "zip":
        yield from _members(whole, txt_documents)
        return
    compressed = bool(compression_of(file.name))
    size = file.size * (ASSUMED_COMPRESSION if compressed else 1)
    whole = replace(whole, splitting=_splitting(whole.kind, txt_documents, size))
    pieces: list[tuple[Slice, int]] = []
    if size > bytes_per_part and not compressed:
        if whole.kind == "parquet":
            pieces = _row_groups(whole, bytes_per_part)
        elif whole.kind == "jsonl" or (whole.kind == "txt" and whole.splitting != "file"):
            pieces = list(_byte_ranges(whole, bytes_per_part))
    yield from pieces or [(whole, size)]


def _splitting(kind: str, txt_documents: TxtDocuments, size: int) -> Splitting:
    if kind in ("docx", "pdf"):  # the length of their text is known once they are read
        return "file" if txt_documents == "file" else "packed"
    if kind != "txt":
        return "file"
    if txt_documents == "auto":
        return "packed" if size > LONG_TEXT else "file"
    return txt_documents


def _members(archive: Slice, txt_documents: TxtDocuments) -> Iterator[tuple[Slice, int]]:
    if compression_of(archive.name):
        yield _refused(archive, "nested_archive", "a compressed archive is not opened; decompress it"), 0
        return
    with watched(replace(archive, end=archive.size)) as file:
        members, damage = list_members(file.file)
    for name, member in members:
        size = max(member.size, member.packed, 0)
        size *= ASSUMED_COMPRESSION if compression_of(name) else 1
        kind = kind_of(name)
        splitting = _splitting(kind, txt_documents, size)
        yield replace(archive, name=f"{archive.name}/{name}", kind=kind, splitting=splitting, member=member), size
    if damage:
        yield _refused(archive, "damaged_archive", damage), 0
    elif not members:
        yield _refused(archive, "empty_file", "the archive contains no file; remove it or add files to it"), 0


def _refused(archive: Slice, reason: str, detail: str) -> Slice:
    """Return a slice in place of an archive, which its reader rejects for a reason."""
    return replace(archive, member=Member(0, 0, refusal=reason, detail=detail))


def _row_groups(whole: Slice, bytes_per_part: int) -> list[tuple[Slice, int]]:
    """Return runs of row groups, or nothing for an unreadable file, which its reader reports."""
    pieces: list[tuple[Slice, int]] = []
    with watched(whole) as file:
        try:
            metadata = pyarrow.parquet.read_metadata(file.file)
        except (pa.ArrowException, OSError):
            return []
    start, first_row, rows, filled = 0, 1, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        filled += group.total_byte_size
        rows += group.num_rows
        if filled >= bytes_per_part or index == metadata.num_row_groups - 1:
            pieces.append((replace(whole, start=start, end=index + 1, first_row=first_row), filled))
            start, first_row, rows, filled = index + 1, first_row + rows, 0, 0
    return pieces


def _byte_ranges(whole: Slice, bytes_per_part: int) -> Iterator[tuple[Slice, int]]:
    """Cut a file at line ends (a .txt of blocks at blank lines), counting its lines.

    All ranges have the file's encoding. Nothing is yielded if a line end could be part of a character (UTF-16), or if
    most lines are in no supported encoding, which the reader reports.
    """
    cut = _BLANK_LINE if whole.splitting == "blank_lines" and whole.kind == "txt" else _LINE_END
    with watched(replace(whole, end=whole.size)) as file:
        encoding, wrong = encoding_in(whole, file)
        if encoding not in LINE_SAFE or wrong is not None:
            return
        yield from _ranges(replace(whole, encoding=encoding), file, cut, bytes_per_part)


def _ranges(whole: Slice, file: WatchedFile, cut: re.Pattern[bytes], wanted: int) -> Iterator[tuple[Slice, int]]:
    start, first_row = 0, 1
    source = ReturnsAsLineFeeds(file.file) if has_returns(whole, file) else file.file
    file.file.seek(0)
    while start < whole.size:
        end, lines = _next_cut(source, cut, wanted)
        if end <= start:
            return  # the file has become shorter, which `watched` reports
        yield replace(whole, start=start, end=end, first_row=first_row), end - start
        start, first_row = end, first_row + lines


_LINE_END = re.compile(rb"\n")
"""The line end of `头痛\\n`."""
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
"""The end of a line and the blank line after it: `\\n \\r\\n`."""


def _next_cut(file: BinaryIO | ReturnsAsLineFeeds, cut: re.Pattern[bytes], wanted: int) -> tuple[int, int]:
    """Read on to the first cut after `wanted` bytes, and return its position and the number of lines read."""
    lines = 0
    while wanted > 0 and (block := file.read(min(wanted, 1 << 20))):
        wanted -= len(block)
        lines += block.count(b"\n")
    tail = b""
    while line := file.readline():
        lines += 1
        tail = tail[-64:] + line  # with the end of the line before, which a blank line follows
        if cut.search(tail):
            break
    return file.tell(), lines
