"""Rows of a term list's file: cells of a CSV, TSV or XLSX file as stripped strings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice

from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from infra.errors import UserError
from tasks.files.csv_rows import allow_long_fields
from tasks.files.encodings import detect_encoding
from tasks.files.workbooks import damage_named, streamed_rows, streamed_sheets

allow_long_fields()

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx")

Cells = Sequence[str]
"""Cells of a row."""


def read_sheets(data: bytes, name: str, most: int | None = None) -> list[list[Cells]]:
    """Read the rows of every sheet; a text file has one sheet.

    Args:
        name: name of the file; its suffix determines the format.
        most: number of rows of each sheet that are read; by default all.

    Raises:
        UserError: the suffix is unknown, or the file does not have its format.
    """
    suffix = "." + name.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{name}: a term list must be a {', '.join(SUFFIXES)} file. Convert or rename the file.")
    sheets = (
        _workbook_rows(data, name, most) if suffix == ".xlsx" else [list(islice(_text_rows(data, name, suffix), most))]
    )
    # A byte order mark may be left in the first cell.
    return [[tuple(cell.strip().strip("\ufeff") for cell in row) for row in sheet] for sheet in sheets]


def _text_rows(data: bytes, name: str, suffix: str) -> Iterator[Cells]:
    encoding = detect_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(
            f"{name}, line {line}: {data[error.start : error.start + 8]!r} is neither UTF-8 nor GB18030. "
            "Save the file as UTF-8."
        ) from error
    head = text[:10_000]
    is_tabbed = suffix == ".tsv" or (suffix == ".txt" and "\t" in head)
    # Rows are numbered, not lines: a quoted cell with line breaks spans several lines.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if is_tabbed else ",")
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(f"{name}, line {reader.line_num} cannot be read: {error}. Is a quote missing?") from error


def _workbook_rows(data: bytes, name: str, most: int | None) -> list[list[Cells]]:
    with damage_named(name):
        return [
            list(islice(_sheet_rows(sheet, name), most))
            for _, sheet in streamed_sheets(io.BytesIO(data), len(data), name)
        ]


def _sheet_rows(sheet: ReadOnlyWorksheet, name: str) -> Iterator[Cells]:
    """Yield the rows of a sheet up to the last filled one, empty where the sheet leaves rows or cells out."""
    number = 0
    for row, values in streamed_rows(sheet, name):
        yield from [()] * (row - number - 1)
        yield ["" if value is None else str(value) for value in values]
        number = row
