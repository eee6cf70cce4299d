"""Reading text files of many kinds, row by row: a bad row is told apart, a bad file is told in full.

Memory is bounded by one row and one block, however large the file; compressed files are read as they stream.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet
import zstandard

from infra.errors import UserError
from tasks.raw_input import kind_of

PROBE = 1 << 20
"""Bytes at the beginning of a file that its encoding is judged by."""

ENCODINGS = ("utf-8", "gb18030")
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MAX_DOCUMENT = 1 << 20
"""Characters after which a plain text file is cut into another document, at the end of a line."""

TRUNCATED = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)


@dataclass(frozen=True)
class Row:
    """One text of a file: its number (line or record, counted from 1), its title and its text."""

    number: int
    title: str
    text: str


@dataclass(frozen=True)
class BadRow:
    """A row that is no text, and why."""

    number: int
    reason: str
    detail: str
    excerpt: str = ""


@dataclass(frozen=True)
class Fields:
    """Names under which a record's text and title are looked for, in order."""

    text: Sequence[str]
    title: Sequence[str]


def read_rows(path: Path, fields: Fields, encoding: str | None) -> Iterator[Row | BadRow]:
    """The rows of a file, whatever its kind.

    Raises:
        UserError: the file as a whole cannot be read (encoding, columns, not a Parquet file).
    """
    kind, _ = kind_of(path)
    readers = {".txt": _text, ".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet}
    number = 0
    try:
        for row in readers[kind](path, fields, encoding):
            number = row.number
            yield row
    except TRUNCATED as error:
        yield BadRow(number + 1, "truncated_file", f"the rest of the file cannot be unpacked: {error}")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}. Check the file.") from error


def _text(path: Path, fields: Fields, encoding: str | None) -> Iterator[Row | BadRow]:
    lines: list[str] = []
    size = first = 0
    for number, line in _lines(path, encoding):
        if isinstance(line, BadRow):
            yield line
            continue
        first = first or number
        lines.append(line)
        size += len(line) + 1
        if size > MAX_DOCUMENT:
            yield Row(first, "", "\n".join(lines))
            lines, size, first = [], 0, 0
    if any(line.strip() for line in lines):
        yield Row(first, "", "\n".join(lines))


def _jsonl(path: Path, fields: Fields, encoding: str | None) -> Iterator[Row | BadRow]:
    for number, line in _lines(path, encoding):
        if isinstance(line, BadRow):
            yield line
        elif line.strip():
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                yield BadRow(number, "invalid_json", str(error), line)
                continue
            yield _row(number, record, fields, line)


def _csv(path: Path, fields: Fields, encoding: str | None) -> Iterator[Row | BadRow]:
    bad: list[BadRow] = []

    def good_lines() -> Iterator[str]:
        for _, line in _lines(path, encoding):
            if isinstance(line, BadRow):
                bad.append(line)
            else:
                yield line.replace("\0", "") + "\n"

    csv.field_size_limit(1 << 30)
    reader = csv.DictReader(good_lines(), delimiter="\t" if kind_of(path)[0] == ".tsv" else ",")
    names = reader.fieldnames or []
    if not any(name in names for name in fields.text):
        raise UserError(
            f"{path}, row 1: none of the columns {list(names)} holds the text; it is looked for under "
            f"{', '.join(fields.text)}. Name the column: --param ingest.text_fields='[\"…\"]'."
        )
    for record in reader:
        yield _row(reader.line_num, record, fields, str(record))
    yield from bad


def _parquet(path: Path, fields: Fields, encoding: str | None) -> Iterator[Row | BadRow]:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} is not a Parquet file: {error}") from error
    columns = [name for name in (*fields.text, *fields.title) if name in file.schema_arrow.names]
    if not any(name in columns for name in fields.text):
        raise UserError(
            f"{path}: none of the columns {file.schema_arrow.names} holds the text; it is looked for under "
            f"{', '.join(fields.text)}. Name the column: --param ingest.text_fields='[\"…\"]'."
        )
    number = 0
    for batch in file.iter_batches(batch_size=1024, columns=columns):
        for record in batch.to_pylist():
            number += 1
            yield _row(number, record, fields, str(record))


def _row(number: int, record: Any, fields: Fields, raw: str) -> Row | BadRow:
    if not isinstance(record, dict):
        return BadRow(number, "not_an_object", f"the record is a {type(record).__name__}", raw)
    text = next((record[name] for name in fields.text if record.get(name) is not None), None)
    if text is None:
        return BadRow(number, "no_text", f"none of the fields {', '.join(fields.text)} is there", raw)
    if not isinstance(text, str):
        return BadRow(number, "text_is_no_string", f"the text is a {type(text).__name__}", raw)
    if not text.strip():
        return BadRow(number, "empty_text", "the text is empty", raw)
    title = next((record[name] for name in fields.title if isinstance(record.get(name), str)), "")
    return Row(number, title, text)


def _lines(path: Path, encoding: str | None) -> Iterator[tuple[int, str | BadRow]]:
    """Numbered lines without their ends; a line that cannot be decoded is a `BadRow`."""
    encoding = encoding or detect_encoding(path)
    with _open(path) as stream:
        if encoding.startswith("utf-16"):
            lines: Iterator[Any] = iter(codecs.getreader(encoding)(stream))
            for number, line in enumerate(lines, 1):
                yield number, line.rstrip("\r\n")
            return
        for number, data in enumerate(stream, 1):
            try:
                # The byte order mark may only stand at the beginning.
                line = data.decode(encoding if number == 1 else encoding.removesuffix("-sig"))
            except UnicodeDecodeError as error:
                detail = f"bytes {data[error.start : error.end].hex()} are not {encoding}"
                yield number, BadRow(number, "undecodable", detail, data.decode(encoding, "replace"))
                continue
            yield number, line.rstrip("\r\n")


def detect_encoding(path: Path) -> str:
    """The encoding of a file, judged by its first MiB.

    Raises:
        UserError: it is neither UTF-8, UTF-16 with a byte order mark, nor GB18030.
    """
    with _open(path) as stream:
        try:
            probe = stream.read(PROBE)
        except TRUNCATED:
            return "utf-8"  # reading it will tell
    for mark, encoding in BYTE_ORDER_MARKS:
        if probe.startswith(mark):
            return encoding
    whole_lines = probe[: probe.rfind(b"\n") + 1] or probe
    offsets = {}
    for encoding in ENCODINGS:
        try:
            codecs.getincrementaldecoder(encoding)().decode(whole_lines, final=False)
            return encoding
        except UnicodeDecodeError as error:
            offsets[encoding] = error.start
    if _mostly_decodable(whole_lines):
        return "utf-8"
    tried = ", ".join(f"{name} fails at byte {offset:,}" for name, offset in offsets.items())
    raise UserError(f"{path}: the encoding is not known ({tried}). Name it: --param ingest.encoding=big5")


def _mostly_decodable(data: bytes) -> bool:
    """UTF-8 with a few broken lines: those lines are rejected one by one."""
    lines = data.splitlines()
    broken = sum(1 for line in lines if "\ufffd" in line.decode("utf-8", "replace"))
    return len(lines) > 1 and broken <= max(1, len(lines) // 10)


def _open(path: Path) -> BinaryIO:
    compression = kind_of(path)[1]
    try:
        if compression == ".gz":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        if compression == ".zst":
            return zstandard.open(path, "rb")  # type: ignore[return-value]
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be opened: {error.strerror}. Check its permissions.") from error
