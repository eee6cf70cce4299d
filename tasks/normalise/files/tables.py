"""Tables with a column of diagnoses: CSV, TSV, XLSX, or text with one per line; read whole, written
atomically."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from tasks.downstream.readers.source_text import source_text
from tasks.files.csv_rows import allow_long_fields
from tasks.files.tables import DELIMITERS, WRITTEN
from tasks.files.workbooks import Sheet, Value, cell_name, read_workbook, text_of

allow_long_fields()

NAMES = ("text", "diagnosis", "诊断", "诊断名称", "原始词", "term", "mention")
"""Column names recognised as diagnoses, in order of preference."""
ENDING = "诊断"
"""A table with one column whose name ends so, such as 出院诊断, needs no usual name."""
READ = (".csv", ".tsv", ".txt", ".xlsx")

_HEADER_ROWS = 20
"""Rows of a sheet that are searched for the header, which may be below a title."""


class Table(NamedTuple):
    """A table with a column of diagnoses."""

    title: str
    """Name of the sheet."""
    above: list[list[Value]]
    """Rows above the header."""
    header: list[str]
    rows: list[list[Value]]
    """Rows below the header, each as long as it."""
    column: int
    """Place of the column of diagnoses."""
    without_value: tuple[str, ...]
    """Cells of that column whose formula has no stored value, as in B7."""

    @property
    def texts(self) -> list[str]:
        """The diagnoses."""
        return [text_of(row[self.column]) for row in self.rows]

    @property
    def first_row(self) -> int:
        """Number of the first row below the header, from 1."""
        return len(self.above) + 2


def read_table(source: Path, column: str | None = None) -> Table:
    """Read a file.

    Args:
        column: name of the column of diagnoses; by default one of `NAMES`, the only one that ends with `ENDING`, or
            the only column. Of a workbook, the first sheet that has it is read.

    Raises:
        UserError: the file is missing, protected or damaged, has an unknown format or lacks the column.
    """
    kind = source.suffix.lower()
    if not source.is_file():
        what = "is a folder" if source.is_dir() else "does not exist"
        raise UserError(f"{source} {what}. Give a {', '.join(READ)} file with --input.")
    if kind not in READ:
        raise UserError(f"{source} must be a {', '.join(READ)} file.")
    if kind == ".xlsx":
        return _of_workbook(source, column)
    header, rows = _text_rows(source, kind)
    return Table("", [], header, rows, _column(source, header, column), ())


def check_target(target: Path, what: str = "output") -> None:
    """Raise `UserError` unless a file to write has the suffix of a known format."""
    if target.suffix.lower() not in WRITTEN:
        raise UserError(f"The {what} {target} must end in {', '.join(WRITTEN)}.")


def _of_workbook(source: Path, column: str | None) -> Table:
    sheets = [sheet for sheet in read_workbook(source.read_bytes(), str(source)) if any(map(any, sheet.rows))]
    if not sheets:
        raise UserError(f"{source} is empty; one of its first rows must name the columns.")
    for sheet in sheets:
        for place, row in enumerate(sheet.rows[:_HEADER_ROWS]):
            names = [text_of(value).strip() for value in row]
            at = _place(names, column)
            if at is not None:
                return _below(sheet, place, at)
    # A sheet of one column needs no usual name. A row of one value above wider ones is a title, not the header; a
    # merged cell has its value in all of them.
    filled = {place: len(set(filter(None, row))) for place, row in enumerate(sheets[0].rows) if any(row)}
    first = next(iter(filled))
    if filled[first] == 1:
        first = next((place for place, values in filled.items() if values > 1 and place < _HEADER_ROWS), first)
    return _below(sheets[0], first, _column(source, [text_of(value) for value in sheets[0].rows[first]], column))


def _below(sheet: Sheet, header: int, column: int) -> Table:
    names = [text_of(value) for value in sheet.rows[header]]
    missing = [row for row in sheet.without_value.get(column, ()) if row > header + 1]
    cells = tuple(cell_name(row, column) for row in missing)
    return Table(sheet.title, sheet.rows[:header], names, sheet.rows[header + 1 :], column, cells)


def _text_rows(source: Path, kind: str) -> tuple[list[str], list[list[Value]]]:
    """Return the header and the rows, padded to the length of the header."""
    text = source_text(source)
    if kind == ".txt":
        return ["text"], [[line] for line in text.removesuffix("\n").split("\n")] if text else []
    rows = list(_parsed(source, text, DELIMITERS[kind]))
    if not rows:
        raise UserError(f"{source} is empty; its first line must name the columns.")
    header, *values = rows
    for number, row in enumerate(values, start=1):
        if len(row) > len(header):
            raise UserError(
                f"{source}, row {number}: {len(row)} fields, but the header has {len(header)}. Put fields that contain "
                "the delimiter in quotes."
            )
    return header, [[*row, *[""] * (len(header) - len(row))] for row in values]


def _parsed(source: Path, text: str, delimiter: str) -> Iterator[list[str]]:
    # newline="" keeps U+2028 and the soft breaks of word processors inside a cell; only line feeds end a line.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from (row for row in reader if row)
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num}: {error}. Save the file as CSV again.") from error


def _place(names: Sequence[str], wanted: str | None) -> int | None:
    return next((names.index(name) for name in (NAMES if wanted is None else (wanted,)) if name in names), None)


def _only_ending(names: Sequence[str]) -> int | None:
    """Return the place of the only name that ends so; of 入院诊断 and 出院诊断 a person has to choose."""
    places = [place for place, name in enumerate(names) if name.endswith(ENDING)]
    return places[0] if len(places) == 1 else None


def _column(source: Path, header: Sequence[str], wanted: str | None) -> int:
    names = [name.strip() for name in header]
    place = _place(names, wanted)
    if place is None and wanted is None:
        place = _only_ending(names)
    if place is not None:
        return place
    if wanted is None and len([name for name in names if name]) == 1:
        return next(place for place, name in enumerate(names) if name)
    missing = f"no column {wanted!r}" if wanted is not None else f"no column with a usual name ({', '.join(NAMES)})"
    raise UserError(f"{source} has {missing}; its columns are {', '.join(names)}. Give the column with --column.")
