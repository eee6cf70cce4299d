"""Rows of a user's own file under the names of its columns: CSV, TSV, JSON lines, Parquet or XLSX.

The header of a workbook may be below a title. A merged area has its value in each of its cells, as a label that stands
for several rows; a text must be in a cell of its own. Memory holds the file.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from infra.disk.parquet_batches import ParquetBombError, parquet_batches
from infra.errors import UserError
from tasks.downstream.readers.json import json_rows
from tasks.downstream.readers.source_text import source_text
from tasks.downstream.spec import Row
from tasks.files.columns import distinct_columns
from tasks.files.csv_rows import allow_long_fields
from tasks.files.tables import DELIMITERS
from tasks.files.workbooks import Sheet, cell_name, read_workbook, text_of

allow_long_fields()

HEADER_ROWS = 20
"""Rows of a sheet that are searched for the header, which may be below a title."""

SHORT = 3
"""Characters of a name of a column, up to which one wrong character is much of the name."""


class Needed(NamedTuple):
    """Columns that a file must have."""

    texts: tuple[str, ...]
    """Columns of texts, in which no two rows may share a cell."""
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.texts, *self.others)


def table_rows(path: Path, needed: Needed, remedy: str) -> list[Row]:
    """Return the rows of a file, each with its place; empty rows are left out.

    Args:
        remedy: what to do if a column is missing, as a sentence.

    Raises:
        UserError: the file does not exist, is empty, damaged or of another format, lacks a column, or has a row that
            does not fit its header. The message names the file and, where there is one, row and column.
    """
    if not path.is_file():
        raise UserError(f"There is no file {path}. Give a {', '.join(READERS)} file.")
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise UserError(f"{path} must be a {', '.join(READERS)} file. Convert it, or correct its name.")
    rows = list(read(path, needed, remedy))
    if not rows:
        raise UserError(f"{path} has no rows. Give a file with a row for each record.")
    return rows


def check_columns(where: str, there: Sequence[str], needed: Needed, remedy: str) -> None:
    """Raise `UserError` for the first column that is missing, with those that are there."""
    for name in needed.names:
        if name not in there:
            # Of 主述 and 主诉 half the characters are equal, as much as of `text` and `next_one`.
            cutoff = 0.5 if len(name) <= SHORT else 0.75
            near = difflib.get_close_matches(name.lower(), [one.lower() for one in there], n=1, cutoff=cutoff)
            hint = next((f" Did you mean {one!r}?" for one in there if near and one.lower() == near[0]), "")
            columns = ", ".join(map(repr, there)) or "none"
            raise UserError(f"{where} has no column {name!r}; its columns are {columns}.{hint} {remedy}")


def workbook_rows(path: Path, needed: Needed, remedy: str, *others: Needed) -> Iterator[Row]:
    """Yield the rows of the first sheet that has the needed columns, or else those of one of `others`.

    Raises:
        UserError: see `table_rows`; also if rows share a text in merged cells, or a cell that is needed has a formula
            that no program has calculated.
    """
    sheets = [sheet for sheet in read_workbook(path.read_bytes(), str(path)) if any(map(any, sheet.rows))]
    if not sheets:
        raise UserError(f"{path} is empty. One of its first rows must name the columns.")
    candidates = [
        _Header(sheet, place, distinct_columns([text_of(value).strip() for value in row]))
        for sheet in sheets
        for place, row in enumerate(sheet.rows[:HEADER_ROWS])
    ]
    for wanted in (needed, *others):
        header = max(candidates, key=lambda one: one.likelihood(wanted))
        if set(wanted.names) <= set(header.names):
            yield from _below(path, header, wanted)
            return
    header = max(candidates, key=lambda one: one.likelihood(needed))
    there = [name for name in header.names if name]
    check_columns(f"{path}, sheet {header.sheet.title!r},", there, needed, remedy)


class _Header(NamedTuple):
    """A row of a sheet that may name the columns."""

    sheet: Sheet
    place: int
    """Number of the row, from 0."""
    names: Sequence[str]

    def likelihood(self, needed: Needed) -> tuple[int, int]:
        """Return a number that is highest for the header; of several rows with all names the first is taken."""
        found = len(set(self.names) & set(needed.names))
        return found, 0 if found == len(set(needed.names)) else sum(map(bool, self.names))


def _below(path: Path, given: _Header, needed: Needed) -> Iterator[Row]:
    sheet, header, names = given
    for column, name in enumerate(names):
        for area in sheet.merged:
            shared = area.last_row > max(area.first_row, header + 1)
            if name in needed.texts and shared and area.first_column <= column <= area.last_column:
                first, last = cell_name(area.first_row, column), cell_name(area.last_row, column)
                raise UserError(
                    f"{path}, sheet {sheet.title!r}, column {name!r}: the cells {first} to {last} are merged, so their "
                    "rows would have one text. Unmerge them, and give each row its own."
                )
        missing = [row for row in sheet.without_value.get(column, ()) if row > header + 1]
        if name in needed.names and missing:
            raise UserError(
                f"{path}, sheet {sheet.title!r}, cell {cell_name(missing[0], column)}, column {name!r}: a formula "
                "without a stored value. Open the file in a spreadsheet and save it."
            )
    for number, row in enumerate(sheet.rows[header + 1 :], start=header + 2):
        if any(value is not None for value in row):
            yield Row(f"row {number}", dict(zip(names, row, strict=False)))


def _delimited_rows(path: Path, needed: Needed, remedy: str) -> Iterator[Row]:
    text = source_text(path)
    if not text.strip():
        raise UserError(f"{path} is empty. Its first line must name the columns.")
    # newline="" keeps U+2028 and the soft breaks of word processors inside a cell.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=DELIMITERS[path.suffix.lower()], strict=True)
    header: Sequence[str] = ()
    first = 1
    try:
        for values in reader:
            if any(value.strip() for value in values):
                if not header:
                    header = distinct_columns([value.strip() for value in values])
                    check_columns(str(path), header, needed, remedy)
                elif len(values) > len(header):
                    raise UserError(
                        f"{path}, line {first}: {len(values)} fields, but the header has {len(header)}. Put fields "
                        "that contain the delimiter in quotes."
                    )
                else:
                    yield Row(f"line {first}", dict(zip(header, [*values, *[""] * len(header)], strict=False)))
            first = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}, line {first}: {error}. Close the quote, or double it inside a quoted field."
        ) from error


def _json_rows(path: Path, needed: Needed, remedy: str) -> Iterator[Row]:
    for row in json_rows(source_text(path), path):
        check_columns(f"{path}, {row.place},", [str(name) for name in row.fields], needed, remedy)
        yield row


def parquet_rows(path: Path, needed: Needed, remedy: str) -> Iterator[Row]:
    """Yield the rows of a Parquet file, numbered from 1. Raises `UserError` as `table_rows` does."""
    number = 0
    try:
        for batch in parquet_batches(path):
            check_columns(str(path), batch.schema.names, needed, remedy)
            for fields in batch.to_pylist():
                number += 1
                yield Row(f"row {number}", fields)
    except ParquetBombError as error:
        raise UserError(f"{path} is refused: {error}.") from error
    except UnicodeDecodeError as error:  # Parquet's texts are UTF-8, which some writers do not check
        raise UserError(f"{path}: a text after row {number} is not UTF-8 ({error}). Write the file again.") from error
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}. Write the file again.") from error


READERS: Mapping[str, Callable[[Path, Needed, str], Iterator[Row]]] = {
    ".csv": _delimited_rows,
    ".tsv": _delimited_rows,
    ".jsonl": _json_rows,
    ".json": _json_rows,
    ".parquet": parquet_rows,
    ".xlsx": workbook_rows,
}
"""Readers by the endings of files."""
