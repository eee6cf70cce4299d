"""Rows of a term list's file: cells of a CSV, TSV or XLSX file as stripped strings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import openpyxl
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.worksheet._reader import WorkSheetParser

from infra.errors import UserError
from infra.limits import limits
from tasks.files.csv_rows import allow_long_fields
from tasks.files.encodings import detect_encoding
from tasks.files.workbooks import damage_named, refuse_bombs

allow_long_fields()

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx")

Cells = Sequence[str]
"""Cells of a row."""


def read_sheets(data: bytes, name: str) -> list[list[Cells]]:
    """Read the rows of every sheet; a text file has one sheet.

    Args:
        name: name of the file; its suffix determines the format.

    Raises:
        UserError: the suffix is unknown, or the file does not have its format.
    """
    suffix = "." + name.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{name}: a term list must be a {', '.join(SUFFIXES)} file. Convert or rename the file.")
    sheets = _workbook_rows(data, name) if suffix == ".xlsx" else [list(_text_rows(data, name, suffix))]
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


def _workbook_rows(data: bytes, name: str) -> list[list[Cells]]:
    with damage_named(name):
        refuse_bombs(data, name)
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        return [list(_sheet_rows(sheet, name)) for sheet in book.worksheets]


def _sheet_rows(sheet: ReadOnlyWorksheet, name: str) -> Iterator[Cells]:
    """Yield the rows of a sheet up to the last filled one, empty where the sheet leaves rows or cells out.

    What a sheet says of its size is not believed: some programs write A1, or forget what was added.
    """
    known = limits()
    taken, number = 0, 0
    with sheet._get_source() as source:
        book = sheet.parent
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for row, cells in parser.parse():
            if not number < row <= known.sheet_rows:
                raise UserError(
                    f"{name}, sheet {sheet.title!r}: row {row} follows row {number}; rows ascend to at most "
                    f"{known.sheet_rows:,}. Save it again, or as CSV."
                )
            filled = {cell["column"]: str(cell["value"]) for cell in cells if cell["value"] is not None}
            width = max(filled, default=0)
            taken += width + row - number
            if taken > known.sheet_cells:
                raise UserError(
                    f"{name}, sheet {sheet.title!r}: more than {known.sheet_cells:,} cells up to row {row}. Delete "
                    "columns and rows that are not needed, or raise YIWEN_LIMITS."
                )
            yield from [()] * (row - number - 1)
            yield [filled.get(column, "") for column in range(1, width + 1)]
            number = row
