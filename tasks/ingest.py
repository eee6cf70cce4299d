"""Stage `ingest`: files of text to documents.

Files become units of about `bytes_per_part` bytes: small files share one; a big plain .txt or .jsonl is cut at
line ends, a big Parquet file between row groups. A big .csv, a compressed or a UTF-16 file stays one unit and
one part, because its rows can only be found from its start: cut such files yourself, or give them as .jsonl or
.parquet, to have them read in parallel.

Rows that cannot be read are rejected with file#row and the run goes on. A file in the wrong encoding stops it.

Memory: one batch of documents and what the reader of the format holds; time is linear in the bytes.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet
from pydantic import Field, field_validator

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.documents import make_document
from tasks.raw_input import RawFile, RawInput
from tasks.row_files import KINDS, Problem, Slice, Splitting, kind_of, read_rows
from tasks.text_files import COMPRESSIONS, detect_encoding, read_head

TEXT_FIELDS = ("text", "content", "正文", "内容", "文本", "body")
TITLE_FIELDS = ("title", "标题", "题目")
"""Names a field is looked for under, in this order, when no parameter names it."""

LONG_TXT = 1 << 20
"""A .txt above this size is cut into documents between its paragraphs, unless a parameter says how."""

CHARACTERS_PER_WRITE = 1 << 21
"""Characters of text that wait in memory for the next write."""

MAX_META_VALUE = 500
"""Characters of another field of the row that are kept in a document's meta."""

ASSUMED_COMPRESSION = 4

_SURROGATE = re.compile("[\ud800-\udfff]")


class IngestParams(StageParams):
    """How files are read."""

    source: str = Field(default="article", min_length=1)
    """Sub-domain of all documents: dialogue, article, emr, textbook, encyclopedia, …"""
    source_field: str | None = None
    """Field that holds the sub-domain of each row; `source` stands in where it is empty."""
    text_field: str | None = None
    """Field that holds the text; the first of `TEXT_FIELDS` that is there by default."""
    title_field: str | None = None
    """Field that holds the title; the first of `TITLE_FIELDS` that is there by default."""
    encoding: str | None = None
    """Encoding of all text files; told from each file's first bytes by default."""
    txt_documents: Literal["auto", "file", "blank_lines", "lines"] = "auto"
    """What one document of a .txt is: the file, a block between blank lines, or a line. `auto` takes the file
    up to 1 MiB, and above that paragraphs packed to about 20,000 characters."""
    bytes_per_part: int = Field(default=16 << 20, ge=1)
    """Bytes of input that one part is made from, where the format can be cut."""

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str | None) -> str | None:
        if encoding is not None:
            try:
                codecs.getincrementaldecoder(encoding)
            except LookupError:
                raise ValueError("no such encoding; give utf-8, gb18030 or utf-16") from None
        return encoding


@stage(name="ingest", version=1, params=IngestParams, tables=("documents", "rejects"))
def ingest(inputs: Mapping[str, RawInput], params: IngestParams, out: Output) -> None:
    """Documents and rejects of `inputs["corpus"]`.

    Raises:
        UserError: nothing there can be read, no row holds a text, a table lacks the text field, or a file is
            not in its encoding.
    """
    corpus = inputs["corpus"]
    if not any(kind_of(file.path) for file in corpus.files):
        raise UserError(
            f"{corpus.path} holds no file that can be read. Give files ending in "
            f"{', '.join('.' + kind for kind in KINDS)}, each also {' or '.join(COMPRESSIONS)}."
        )
    out.map(ingest_part, plan_units(corpus.files, params), params)
    if out.rows("documents") == 0:
        counts = sorted(out.counters().items())
        rejected = [f"{name} {count:,}" for name, count in counts if name.startswith("rejected_")]
        why = ", ".join(rejected).replace("rejected_", "") or "it is empty"
        raise UserError(
            f"Empty corpus: no row of {corpus.path} became a document ({why}). Look at the files, or name the "
            "field that holds the text with ingest.text_field."
        )


def plan_units(files: Iterable[RawFile], params: IngestParams) -> list[tuple[Slice, ...]]:
    """Slices in the order of the files, drawn together up to `params.bytes_per_part` a unit."""
    units: list[list[Slice]] = []
    filled = math.inf
    for file in files:
        for piece, size in _slices(file, params):
            if filled + size > params.bytes_per_part:
                units.append([])
                filled = 0
            units[-1].append(piece)
            filled += size
    return [tuple(unit) for unit in units]


def ingest_part(part: PartWriter, unit: tuple[Slice, ...], params: IngestParams) -> None:
    """Read the slices of one unit."""
    batch: list[dict[str, str]] = []
    waiting = 0
    for piece in unit:
        for number, found in _documents(piece, params):
            if isinstance(found, Problem):
                _reject(part, piece, number, found, params)
                continue
            batch.append(found)
            waiting += len(found["text"])
            if waiting >= CHARACTERS_PER_WRITE:
                part.write("documents", batch)
                batch, waiting = [], 0
        part.count("bytes_read", _size_of(piece))
    if batch:
        part.write("documents", batch)


def _slices(file: RawFile, params: IngestParams) -> Iterator[tuple[Slice, float]]:
    """The slices of one file, each with the bytes it is about."""
    kind, size = kind_of(file.path), file.path.stat().st_size
    compressed = file.path.suffix.lower() in COMPRESSIONS
    if not kind or not size:
        yield Slice(file.path, file.name, kind), size
        return
    if kind == "parquet":
        pieces = [] if compressed else _row_groups(file, params.bytes_per_part)
        yield from pieces or [(Slice(file.path, file.name, kind), size * ASSUMED_COMPRESSION)]
        return
    encoding = params.encoding or detect_encoding(read_head(file.path))
    splitting = _splitting(params, size * (ASSUMED_COMPRESSION if compressed else 1))
    whole = Slice(file.path, file.name, kind, encoding, splitting)
    fixed = kind in ("csv", "tsv") or (kind == "txt" and splitting == "file") or "16" in encoding
    if compressed or fixed or size <= params.bytes_per_part:
        yield whole, size * (ASSUMED_COMPRESSION if compressed else 1)
        return
    yield from _byte_ranges(whole, size, params.bytes_per_part)


def _splitting(params: IngestParams, size: int) -> Splitting:
    if params.txt_documents == "auto":
        return "packed" if size > LONG_TXT else "file"
    return params.txt_documents


def _row_groups(file: RawFile, bytes_per_part: int) -> list[tuple[Slice, float]]:
    """Runs of row groups; none where the file is not readable, which the reader then reports."""
    try:
        metadata = pyarrow.parquet.read_metadata(file.path)
    except (pa.ArrowException, OSError):
        return []
    pieces: list[tuple[Slice, float]] = []
    start, first_row, rows, filled = 0, 1, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        filled += group.total_byte_size
        rows += group.num_rows
        if filled >= bytes_per_part or index == metadata.num_row_groups - 1:
            piece = Slice(file.path, file.name, "parquet", start=start, end=index + 1, first_row=first_row)
            pieces.append((piece, filled))
            start, first_row, rows, filled = index + 1, first_row + rows, 0, 0
    return pieces


def _byte_ranges(whole: Slice, size: int, bytes_per_part: int) -> Iterator[tuple[Slice, float]]:
    """Cut a file of lines at line ends (a .txt of blocks at blank lines), counting lines on the way."""
    # In UTF-8 and GB18030 alike the byte of a line end occurs in no other character.
    cut = rb"\n[ \t\r]*\n" if whole.splitting == "blank_lines" and whole.kind == "txt" else rb"\n"
    with whole.path.open("rb") as file:
        start, first_row = 0, 1
        while start < size:
            end, lines = _next_cut(file, re.compile(cut), bytes_per_part)
            yield (
                Slice(whole.path, whole.name, whole.kind, whole.encoding, whole.splitting, start, end, first_row),
                end - start,
            )
            start, first_row = end, first_row + lines


def _next_cut(file: Any, cut: re.Pattern[bytes], wanted: int) -> tuple[int, int]:
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


def _documents(piece: Slice, params: IngestParams) -> Iterator[tuple[int, dict[str, str] | Problem]]:
    if not piece.kind:
        known = ", ".join(KINDS)
        yield 0, Problem("unknown_kind", f"files that end in {piece.path.suffix!r} are not read; {known} are")
        return
    number = 0
    for number, row in read_rows(piece):
        yield number, row if isinstance(row, Problem) else _document(piece, number, row, params)
    if number == 0 and piece.start == 0:
        yield 0, Problem("empty_file", "the file holds no row")


def _document(piece: Slice, number: int, row: Mapping[str, Any], params: IngestParams) -> dict[str, str] | Problem:
    name = _field(row, params.text_field, TEXT_FIELDS)
    if name is None:
        return _without_text(piece, row, params)
    text = row[name]
    if text is None:
        return Problem("missing_text", f"field {name!r} is null")
    if not isinstance(text, str):
        return Problem("text_not_string", f"field {name!r} is a {type(text).__name__}", str(text))
    if not text.strip():
        return Problem("empty_text", f"field {name!r} is blank")
    title_field = _field(row, params.title_field, TITLE_FIELDS)
    title = row[title_field] if title_field else ""
    source = row.get(params.source_field) if params.source_field else None
    meta = {"file": piece.name, "row": number, **_others(row, {name, title_field, params.source_field})}
    return make_document(
        _readable(source) if isinstance(source, str) and source.strip() else params.source,
        _readable(title).strip() if isinstance(title, str) else "",
        _readable(text),
        meta,
    )


def _without_text(piece: Slice, row: Mapping[str, Any], params: IngestParams) -> Problem:
    """A row of JSON may lack its text; a table without the column is read wrongly from its first row on."""
    wanted = repr(params.text_field) if params.text_field else " or ".join(TEXT_FIELDS)
    found = ", ".join(map(str, row)) or "none"
    if piece.kind == "jsonl" or (piece.kind != "parquet" and params.text_field is None and not row):
        return Problem("missing_text", f"no field {wanted}; fields are {found}", json.dumps(row, default=str))
    raise UserError(
        f"{piece.name} has no column {wanted}; its columns are {found}. "
        "Name the one that holds the text with ingest.text_field."
    )


def _field(row: Mapping[str, Any], wanted: str | None, candidates: Iterable[str]) -> str | None:
    names = (wanted,) if wanted is not None else candidates
    return next((name for name in names if name in row), None)


def _others(row: Mapping[str, Any], taken: set[str | None]) -> dict[str, str | int | float | bool]:
    """Short plain values of the row's other fields."""
    return {
        _readable(str(name)): _readable(value) if isinstance(value, str) else value
        for name, value in row.items()
        if name not in taken and isinstance(value, str | int | float) and len(str(value)) <= MAX_META_VALUE
        if not (isinstance(value, float) and not math.isfinite(value))
    }


def _readable(text: str) -> str:
    """Line ends as \\n; half of a surrogate pair, which no encoding can store, as the replacement character."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATE.sub("\ufffd", text)


def _reject(part: PartWriter, piece: Slice, number: int, problem: Problem, params: IngestParams) -> None:
    part.reject(
        doc_id=f"{piece.name}#{number}" if number else piece.name,
        source=params.source,
        reason=problem.reason,
        detail=_readable(problem.detail),
        text=_readable(problem.text),
    )


def _size_of(piece: Slice) -> int:
    if piece.kind == "parquet" or piece.end is None:
        return Path(piece.path).stat().st_size if piece.start == 0 else 0
    return piece.end - piece.start
