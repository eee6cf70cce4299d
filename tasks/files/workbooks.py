"""XLSX workbooks as plain values, and values as a workbook.

A formula counts as the value that the spreadsheet program stored with it. A merged area has its value in every cell.
`read_workbook` holds the whole workbook in memory; `streamed_sheets` only its table of strings and one row.
"""

from __future__ import annotations

import io
import itertools
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree

import openpyxl
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.reader.excel import ExcelReader
from openpyxl.utils import get_column_letter, range_boundaries
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.worksheet._reader import WorkSheetParser

from infra.cells import inert
from infra.errors import UserError
from infra.limits import limits
from tasks.files.office.elements import GuardedArchive, XmlBombError
from tasks.files.office.package import COMPOUND_FILE, ENCRYPTED

MOST_ROWS = 1_048_576
"""Rows of a sheet in Excel."""
MOST_CHARACTERS = 32_767
"""Characters of a cell in Excel."""

Value = str | int | float | bool | date | datetime | time | timedelta | None


class Area(NamedTuple):
    """A rectangle of cells: rows from 1, columns from 0, the last of each included."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


class Sheet(NamedTuple):
    """A sheet of a workbook."""

    title: str
    rows: list[list[Value]]
    without_value: dict[int, list[int]]
    """For each column, from 0, the numbers of the rows, from 1, with a formula that no program has calculated."""
    merged: tuple[Area, ...] = ()
    """Areas whose cells are one in the workbook."""


def read_workbook(data: bytes, name: str) -> list[Sheet]:
    """Read every sheet.

    Raises:
        UserError: the file is protected by a password, or is no XLSX file.
    """
    if data.startswith(COMPOUND_FILE):
        if ENCRYPTED in data:
            raise UserError(f"{name} is protected by a password. Open it, save it without the password, and try again.")
        raise UserError(f"{name} is a workbook of an old format (.xls). Save it as .xlsx, or as CSV.")
    with damage_named(name):
        refuse_bombs(io.BytesIO(data), len(data), name)
        _refuse_merged_bombs(data, name)
        book = _loaded(io.BytesIO(data), data_only=True)
        formulas = _loaded(io.BytesIO(data)) if _has_formulas(data) else None
        for sheet in book.worksheets:
            if sheet.max_row * sheet.max_column > limits().sheet_cells:
                raise _too_large(name, sheet.title)
        return [_sheet(sheet, None if formulas is None else formulas[sheet.title]) for sheet in book.worksheets]


def streamed_sheets(file: BinaryIO, size: int, name: str) -> Iterator[tuple[str, ReadOnlyWorksheet]]:
    """Yield the sheets of a workbook, whose rows `streamed_rows` reads, each with its title.

    Args:
        file: the workbook, open for reading at any position.
        size: its bytes.
        name: its name, for messages.

    Raises:
        UserError: the file is no XLSX file, or expands out of all proportion.
    """
    with damage_named(name):
        refuse_bombs(file, size, name)
        book = _loaded(file, read_only=True, data_only=True)
        yield from ((sheet.title, sheet) for sheet in book.worksheets)


def _loaded(file: BinaryIO, **options: bool) -> Any:
    """Return what `openpyxl.load_workbook` returns, without the values of other workbooks that it links to.

    Raises:
        XmlBombError: its XML asks for more than what office programs write.
    """
    reader = ExcelReader(file, keep_links=False, **options)
    reader.archive = GuardedArchive(file)  # before any part is read
    reader.read()
    return reader.wb


def streamed_rows(sheet: ReadOnlyWorksheet, name: str) -> Iterator[tuple[int, list[Value]]]:
    """Yield the rows of a sheet up to their last filled cells, each with its number from 1; rows may be left out.

    What a sheet says of its size is not believed: some programs write A1, or forget what was added.

    Raises:
        UserError: the rows do not ascend, or there are too many cells.
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
            filled = {cell["column"]: cell["value"] for cell in cells if cell["value"] is not None}
            width = max(filled, default=0)
            taken += width + row - number
            if taken > known.sheet_cells:
                raise UserError(
                    f"{name}, sheet {sheet.title!r}: more than {known.sheet_cells:,} cells up to row {row}. Delete "
                    "columns and rows that are not needed, or raise YIWEN_LIMITS."
                )
            yield row, [filled.get(column) for column in range(1, width + 1)]
            number = row


def with_merged(
    sheet: ReadOnlyWorksheet, rows: Iterable[tuple[int, list[Value]]], name: str
) -> Iterator[tuple[int, list[Value]]]:
    """Yield the rows of a sheet with the value of each merged area in all of its cells.

    The areas follow the rows in the file, so it is read once more before.

    Raises:
        UserError: the areas have too many cells.
    """
    waiting = sorted(_merged_areas(sheet), key=lambda area: area[1], reverse=True)
    if sum((right - left + 1) * (low - top + 1) for left, top, right, low in waiting) > limits().sheet_cells:
        raise _too_large(name, sheet.title)
    current: list[tuple[int, int, int, Value]] = []
    for number, cells in rows:
        current = [one for one in current if one[2] >= number]
        while waiting and waiting[-1][1] <= number:
            left, top, right, low = waiting.pop()
            if top == number and low >= number and left <= len(cells):
                current.append((left, right, low, cells[left - 1]))
        for left, right, _, value in current:
            cells.extend([None] * (right - len(cells)))
            cells[left - 1 : right] = [value] * (right - left + 1)
        yield number, cells


def _merged_areas(sheet: ReadOnlyWorksheet) -> set[tuple[int, int, int, int]]:
    """Return first column, first row, last column and last row of the merged areas, from 1."""
    areas: set[tuple[int, int, int, int]] = set()
    with sheet._get_source() as source:
        held = b""
        while block := source.read(1 << 20):
            held = held[-256:] + block  # an element may be cut
            areas.update(range_boundaries(one.decode()) for one in _MERGED.findall(held))
    return areas


def refuse_bombs(file: BinaryIO, size: int, name: str) -> None:
    """Raise `UserError` if the parts of a workbook of `size` bytes overlap, or expand out of all proportion.

    The sizes that it announces are the true ones: zipfile stops where a part is longer.
    """
    with zipfile.ZipFile(file) as archive:
        parts = sorted(archive.infolist(), key=lambda part: part.header_offset)
    for part, following in itertools.pairwise(parts):
        if part.header_offset + part.compress_size > following.header_offset:
            raise UserError(f"{name}: its parts {part.filename} and {following.filename} overlap. Save it again.")
    expanded = sum(part.file_size for part in parts)
    if limits().is_bomb(size, expanded):
        raise UserError(
            f"{name} expands from {size:,} to {expanded:,} bytes. Save it as CSV, or raise YIWEN_LIMITS if you "
            "trust it."
        )


# Matches A1:B2 of <mergeCell ref="A1:B2"/>. Not beyond the next tag: "<mergeCell <mergeCell …" would take hours.
_MERGED = re.compile(rb'<mergeCell\b[^<>]*?ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')


def _refuse_merged_bombs(data: bytes, name: str) -> None:
    """Raise `UserError` if merged areas have too many cells: openpyxl makes each of them."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        for part in packed.namelist():
            if part.startswith("xl/worksheets/"):
                areas = (range_boundaries(one.group(1).decode()) for one in _MERGED.finditer(packed.read(part)))
                if sum((right - left + 1) * (low - top + 1) for left, top, right, low in areas) > limits().sheet_cells:
                    raise _too_large(name, part)


def _too_large(name: str, sheet: str) -> UserError:
    return UserError(
        f"{name}, sheet {sheet!r}: more than {limits().sheet_cells:,} cells. Delete columns and rows that are not "
        "needed, or raise YIWEN_LIMITS."
    )


def _sheet(sheet: Any, formulas: Any) -> Sheet:
    rows = [list(row) for row in sheet.iter_rows(values_only=True)]
    missing: dict[int, list[int]] = {}
    for number, row in enumerate(formulas.iter_rows() if formulas is not None else (), start=1):
        for column, cell in enumerate(row):
            if cell.data_type == "f" and rows[number - 1][column] is None:
                missing.setdefault(column, []).append(number)
    for area in sheet.merged_cells.ranges:
        value = rows[area.min_row - 1][area.min_col - 1]
        for row in rows[area.min_row - 1 : area.max_row]:
            row[area.min_col - 1 : area.max_col] = [value] * (area.max_col - area.min_col + 1)
    areas = (Area(one.min_row, one.max_row, one.min_col - 1, one.max_col - 1) for one in sheet.merged_cells.ranges)
    return Sheet(sheet.title, rows, missing, tuple(sorted(areas)))


def _has_formulas(data: bytes) -> bool:
    """Return True if a sheet may have formulas, as in <f>A1</f> or <f t="shared">."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        sheets = [one for one in packed.namelist() if one.startswith("xl/worksheets/")]
        return any(b"<f>" in content or b"<f " in content for content in map(packed.read, sheets))


@contextmanager
def damage_named(name: str) -> Iterator[None]:
    """Raise what openpyxl raises for a damaged file as a `UserError` that names the file."""
    try:
        yield
    except UserError:
        raise
    except XmlBombError as error:
        raise UserError(f"{name} cannot be read as XLSX: {error}.") from error
    # Each is raised for some damaged file: not a zip, a part missing in it, broken XML, an invalid value.
    except (
        InvalidFileException,
        zipfile.BadZipFile,
        zlib.error,
        ElementTree.ParseError,
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
        OSError,
        EOFError,
        RecursionError,
    ) as error:
        raise UserError(f"{name} cannot be read as XLSX ({error}). Save it again, or as CSV.") from error


def text_of(value: Value) -> str:
    """Return a value as text: "" for an empty cell, 12 for the number 12.0."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell, as in B7, from the number of its row, from 1, and of its column, from 0."""
    return f"{get_column_letter(column + 1)}{row}"


def workbook_bytes(rows: Iterable[Sequence[Value]], name: str, title: str = "Sheet1") -> bytes:
    """Return a workbook of one sheet. Text that a spreadsheet would run is inert (infra/cells.py).

    Raises:
        UserError: there are more rows than a sheet can have.
    """
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet(ILLEGAL_CHARACTERS_RE.sub("", title)[:31] or "Sheet1")
    for number, row in enumerate(rows, start=1):
        if number > MOST_ROWS:
            raise UserError(
                f"{name} would have more than {MOST_ROWS:,} rows, which XLSX cannot hold. Write a .csv file."
            )
        sheet.append([_cell(sheet, value) for value in row])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _cell(sheet: Any, value: Value) -> Any:
    if not isinstance(value, str):
        return value
    # openpyxl refuses control characters, and takes text that begins with = for a formula.
    text = inert(ILLEGAL_CHARACTERS_RE.sub("\ufffd", value)[:MOST_CHARACTERS])
    cell = WriteOnlyCell(sheet, text)
    cell.data_type = "s"
    return cell


def is_workbook(path: Path) -> bool:
    """Return True if a file's name says that it is a workbook."""
    return path.suffix.lower() == ".xlsx"
