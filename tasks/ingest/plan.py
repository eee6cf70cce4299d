"""How the files of a corpus are cut into units of work, without reading more of them than that takes.

Small files share a unit; a big plain .txt or .jsonl is cut at line ends, a big Parquet file between row groups.
A big .csv, .json, a compressed or a UTF-16 file stays one unit, because its rows can only be found from its start.
The members of a zip are files of their own.

Where a unit ends is decided by the files in it, each by its own name and content: adding, changing or taking away
one leaves all units equal but those around it, and what was done for the others can be used again.

Time: plain files above a unit's size are gone through once to count their lines (about 1 GB/s), of the others nothing
is read, of a zip its list of members. Memory: the plan.
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
from tasks.files.rows import encoding_in, has_returns
from tasks.files.slices import Member, Slice, Splitting, compression_of, kind_of

LONG_TXT = 1 << 20
"""A .txt above this size is cut into documents between its paragraphs, unless it is said how."""

ASSUMED_COMPRESSION = 4
"""Bytes that a compressed byte is taken for."""

BYTES_OF_OPENING = 1 << 12
"""Bytes that the opening of a file is taken for, so that a million tiny files are no single unit."""

FILLING = 4
"""A unit may hold so many times the bytes at which one ends on average: almost all end of their own accord."""

TxtDocuments = Literal["auto", "file", "blank_lines", "lines"]


def plan_units(
    files: Iterable[RawFile], bytes_per_part: int, encoding: str | None, txt_documents: TxtDocuments
) -> list[tuple[Slice, ...]]:
    """Slices in the order of the files, drawn together up to `bytes_per_part` a unit.

    `encoding` None tells each file's from its bytes. The plan depends on nothing but the files and these
    values, so any number of workers makes the same parts.

    Raises:
        ChangedFileError: a file is no longer what it was when it was hashed.
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
    """One slice of all that a file holds, or of each member of a zip: for who reads few files and cuts none."""
    return [piece for piece, _ in _slices(file, sys.maxsize, None, txt_documents)]


def _ends_unit(piece: Slice, size: int, bytes_per_part: int) -> bool:
    """Drawn by name and content, with a chance that grows with the size: on average once in a quarter of a part."""
    identity = f"{piece.sha256}\0{piece.name}".encode("utf-8", "surrogateescape")
    drawn = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest(), "big") / 2**64
    return size >= bytes_per_part or drawn < -math.expm1(-FILLING * size / bytes_per_part)


def _slices(
    file: RawFile, bytes_per_part: int, encoding: str | None, txt_documents: TxtDocuments
) -> Iterator[tuple[Slice, int]]:
    """The slices of one file, each with the bytes it is about."""
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
    if kind != "txt":
        return "file"
    if txt_documents == "auto":
        return "packed" if size > LONG_TXT else "file"
    return txt_documents


def _members(archive: Slice, txt_documents: TxtDocuments) -> Iterator[tuple[Slice, int]]:
    if compression_of(archive.name):
        refusal = Member(0, 0, refusal="nested_archive", detail="an archive that is compressed again is not opened")
        yield replace(archive, member=refusal), 0
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
        yield replace(archive, member=Member(0, 0, refusal="damaged_archive", detail=damage)), 0
    elif not members:
        yield replace(archive, member=Member(0, 0, refusal="empty_file", detail="the archive holds no file")), 0


def _row_groups(whole: Slice, bytes_per_part: int) -> list[tuple[Slice, int]]:
    """Runs of row groups; none where the file is not readable, which the reader then reports."""
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
    """Cut a file at line ends (a .txt of blocks at blank lines), counting lines on the way.

    All ranges are in the file's encoding. None where a line end could be part of a character, or most lines are in no
    encoding, which the reader then reports.
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
            return  # it has become shorter, which the watch tells
        yield replace(whole, start=start, end=end, first_row=first_row), end - start
        start, first_row = end, first_row + lines


_LINE_END, _BLANK_LINE = re.compile(rb"\n"), re.compile(rb"\n[ \t\r]*\n")


def _next_cut(file: BinaryIO | ReturnsAsLineFeeds, cut: re.Pattern[bytes], wanted: int) -> tuple[int, int]:
    """Read on from where the file stands to the first cut after `wanted` bytes; its place, and lines passed."""
    lines = 0
    while wanted > 0 and (block := file.read(min(wanted, 1 << 20))):
        wanted -= len(block)
        lines += block.count(b"\n")
    tail = b""
    while line := file.readline():
        lines += 1
        tail = tail[-64:] + line
        if cut.search(tail):
            break
    return file.tell(), lines
