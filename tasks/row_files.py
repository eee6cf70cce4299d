"""Rows of corpus files: .txt, .jsonl, .csv, .tsv and .parquet, each also .gz or .zst.

A row is a mapping with the fields of the file, or a `Problem` that says why it is none; the caller rejects
those and goes on. Rows are numbered from 1: by line for text files (a document of a .txt by its first line),
by row for Parquet.

Memory: one line, one record or one batch of a Parquet row group.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet

from tasks.text_files import COMPRESSIONS, DamagedArchiveError, read_blocks, read_lines

KINDS = ("txt", "jsonl", "csv", "tsv", "parquet")

ROWS_PER_BATCH = 512
"""Rows of a Parquet row group that are Python objects at once."""

PACKED_CHARACTERS = 20_000
"""A long .txt is cut into documents of about this many characters, between paragraphs."""

# Documents may be longer than the 128 KiB that the module allows a field by default.
csv.field_size_limit(2**31 - 1)

Splitting = Literal["file", "packed", "blank_lines", "lines"]


@dataclass(frozen=True)
class Slice:
    """A file or a range of one: bytes of a text file, row groups of a Parquet file."""

    path: Path
    name: str
    kind: str
    """One of `KINDS`, or empty for a file that nothing here reads."""
    encoding: str = "utf-8"
    splitting: Splitting = "file"
    """How a .txt becomes documents."""
    start: int = 0
    end: int | None = None
    """None reads to the end of the file."""
    first_row: int = 1
    """Number of the first line, or of the first Parquet row."""


@dataclass(frozen=True)
class Problem:
    """Why there is no document here."""

    reason: str
    detail: str
    text: str = ""


Row = tuple[int, Mapping[str, Any] | Problem]


def kind_of(path: Path) -> str:
    """The kind of a file by its name, one of `KINDS`; empty for a kind that is not read."""
    name = path.name.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    suffix = name.rpartition(".")[2]
    return suffix if suffix in KINDS else ""


def read_rows(piece: Slice) -> Iterator[Row]:
    """The rows of a slice, in order; a damaged archive ends with a `Problem`.

    Raises:
        UserError: the file cannot be decoded.
    """
    number = piece.first_row - 1
    try:
        for number, row in _READERS[piece.kind](piece):
            yield number, row
    except DamagedArchiveError as error:
        yield number + 1, Problem("damaged_archive", str(error))
    except (pa.ArrowException, csv.Error) as error:
        yield number + 1, Problem("unreadable_file", str(error))


def _lines(piece: Slice) -> Iterator[str]:
    return read_lines(piece.path, piece.name, piece.encoding, piece.start, piece.end)


def _read_jsonl(piece: Slice) -> Iterator[Row]:
    for number, line in enumerate(_lines(piece), piece.first_row):
        if line.strip():
            yield number, _json_object(line)


def _json_object(line: str) -> Mapping[str, Any] | Problem:
    try:
        row = json.loads(line)
    except RecursionError:
        return Problem("invalid_json", "nested too deeply", line)
    except ValueError as error:
        return Problem("invalid_json", str(error), line)
    return row if isinstance(row, dict) else Problem("not_an_object", f"a JSON {type(row).__name__}", line)


def _read_csv(piece: Slice) -> Iterator[Row]:
    delimiter = "\t" if piece.kind == "tsv" else ","
    reader = csv.reader((line + "\n" for line in _lines(piece)), delimiter=delimiter)
    header = next(reader, [])
    number = reader.line_num + 1
    for fields in reader:
        if len(fields) > len(header):
            detail = f"{len(fields)} fields under a header of {len(header)}; is a quote missing?"
            yield number, Problem("surplus_fields", detail, delimiter.join(fields))
        elif fields:
            yield number, dict(zip(header, fields, strict=False))
        number = reader.line_num + 1


def _read_parquet(piece: Slice) -> Iterator[Row]:
    if piece.path.suffix.lower() not in COMPRESSIONS:
        yield from _parquet_rows(piece, piece.path)
        return
    # Parquet is read from its end: it has to be whole first.
    with tempfile.NamedTemporaryFile(prefix="yiwen-", suffix=".parquet") as whole:
        for block in read_blocks(piece.path):
            whole.write(block)
        whole.flush()
        yield from _parquet_rows(piece, Path(whole.name))


def _parquet_rows(piece: Slice, path: Path) -> Iterator[Row]:
    with pyarrow.parquet.ParquetFile(path) as file:
        groups = range(file.num_row_groups)[piece.start : piece.end]
        number = piece.first_row
        for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, row_groups=list(groups)):
            for row in batch.to_pylist():
                yield number, row
                number += 1


def _read_txt(piece: Slice) -> Iterator[Row]:
    """One field, `text`; see `Slice.splitting`."""
    held: list[str] = []
    first, size = piece.first_row, 0
    is_end = _DOCUMENT_ENDS[piece.splitting]
    damage = None
    try:
        for number, line in enumerate(_lines(piece), piece.first_row):
            if not held:
                if not line.strip():
                    continue
                first, size = number, 0
            held.append(line)
            size += len(line)
            if is_end(line, size):
                yield first, {"text": "\n".join(held)}
                held = []
    except DamagedArchiveError as error:
        damage = error
    if held:
        yield first, {"text": "\n".join(held)}
    if damage is not None:
        raise damage


_DOCUMENT_ENDS: Mapping[Splitting, Callable[[str, int], bool]] = {
    "file": lambda line, size: False,
    "lines": lambda line, size: True,
    "blank_lines": lambda line, size: not line.strip(),
    # Where a long text has no blank lines, any line end has to do.
    "packed": lambda line, size: size >= PACKED_CHARACTERS and (not line.strip() or size >= 2 * PACKED_CHARACTERS),
}

_READERS: Mapping[str, Callable[[Slice], Iterator[Row]]] = {
    "txt": _read_txt,
    "jsonl": _read_jsonl,
    "csv": _read_csv,
    "tsv": _read_csv,
    "parquet": _read_parquet,
}
