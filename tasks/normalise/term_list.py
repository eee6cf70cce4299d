"""Lists of standard terms that a user brings: CSV, TSV or XLSX with a column of codes and one of names.

The header may stand below a title, in one of the first rows; of a workbook the first sheet with one is read. Which
columns are meant is told by the params, else by what such columns are usually called. Where no sheet has a header (that
of CHIP-CDN has none), the first one with a column of ICD-10's codes and one of names is read from its first row. Codes
keep their extension (K25.900x001); width, case and white space go, as do the dagger and the asterisk of ICD-10. A list
is held in memory.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple
from xml.etree import ElementTree

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from infra.errors import UserError
from tasks.files.csv_rows import allow_long_fields
from tasks.files.encodings import detect_encoding

allow_long_fields()

SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx")
MAX_NAME = 500
"""Characters of the longest name; a longer one is a broken row."""

CODE_COLUMNS = ("编码", "代码", "诊断编码", "疾病编码", "诊断代码", "疾病代码", "icd编码", "icd10编码", "icd10", "code")
NAME_COLUMNS = ("名称", "诊断名称", "疾病名称", "疾病诊断名称", "标准名称", "标准词", "诊断", "name", "term")
"""What the columns are called; failing these, a name that ends with the first two or the last of them."""

HEADERLESS_SHARE = 0.95
"""Rows of a sheet without a header that have a code of ICD-10's shape, and a name, at the least."""

_HEADER_ROWS = 20
_COLUMNS = 50
_ICD10 = re.compile(r"[A-Z]\d[0-9A-Z](?:\.?[0-9A-Z+/-]*)")
_Cells = Sequence[str]


class ListedTerm(NamedTuple):
    """A row of a list."""

    row: int
    """Its number in the file, from 1."""
    code: str
    term: str


class Rejected(NamedTuple):
    """A row that is no term."""

    row: int
    reason: str
    detail: str
    text: str


def read_term_list(
    data: bytes, name: str, code_column: str | None = None, name_column: str | None = None
) -> tuple[list[ListedTerm], list[Rejected]]:
    """The rows of one file; empty rows are passed over.

    Raises:
        UserError: the file is not what its name says, or lacks a column; the message names what it has.
    """
    sheets = [
        [(number, cells) for number, cells in enumerate(sheet, start=1) if any(cells)] for sheet in _sheets(data, name)
    ]
    headed = ((rows, _header(rows, code_column, name_column)) for rows in sheets)
    rows, layout = next((pair for pair in headed if pair[1]), ([], None))
    if layout is None and code_column is None and name_column is None:
        bare = ((rows, _without_header(rows)) for rows in sheets)
        rows, layout = next((pair for pair in bare if pair[1]), ([], None))
    if layout is None:
        raise _no_columns(name, sheets, code_column, name_column)
    first, code_place, name_place = layout
    terms, rejects = [], []
    for number, cells in rows[first:]:
        text = " | ".join(cells)
        code, term = (cells[at] if at < len(cells) else "" for at in (code_place, name_place))
        if not term:
            rejects.append(Rejected(number, "empty_name", f"code {code}", text))
        elif len(term) > MAX_NAME:
            rejects.append(Rejected(number, "long_name", f"{len(term):,} characters; is a quote missing?", text))
        else:
            terms.append(ListedTerm(number, plain_code(code), term))
    return terms, rejects


def plain_code(code: str) -> str:
    """A code in the form in which codes are compared: `ｅ14.9 †` is E14.9, `k25.900 x001` K25.900X001."""
    plain = unicodedata.normalize("NFKC", code).upper()
    return "".join(character for character in plain if not character.isspace()).rstrip("†*+↑")


def _sheets(data: bytes, name: str) -> list[list[_Cells]]:
    """The rows of every sheet, cells stripped; a text file is one sheet."""
    suffix = "." + name.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{name}: a list of terms comes as {', '.join(SUFFIXES)}. Convert the file or rename it.")
    sheets = _book_rows(data, name) if suffix == ".xlsx" else [list(_text_rows(data, name, suffix))]
    return [[tuple(cell.strip().strip("\ufeff") for cell in row) for row in sheet] for sheet in sheets]


def _text_rows(data: bytes, name: str, suffix: str) -> Iterator[_Cells]:
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
    # A row over several lines is one row here, and the numbers of those behind it are the rows', not the lines'.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if is_tabbed else ",")
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(f"{name}, line {reader.line_num} cannot be read: {error}. Is a quote missing?") from error


def _book_rows(data: bytes, name: str) -> list[list[_Cells]]:
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        return [
            [["" if value is None else str(value) for value in row] for row in sheet.iter_rows(values_only=True)]
            for sheet in book.worksheets
        ]
    except (
        InvalidFileException,
        zipfile.BadZipFile,
        ElementTree.ParseError,
        LookupError,
        ValueError,
        OSError,
    ) as error:
        raise UserError(f"{name} cannot be read as XLSX ({error}). Save it anew, or as CSV.") from error


_Rows = Sequence[tuple[int, _Cells]]
_Layout = tuple[int, int, int]
"""Where among the rows the terms begin, and the places of the two columns."""


def _header(rows: _Rows, code_column: str | None, name_column: str | None) -> _Layout | None:
    """The layout below a row that names both columns; None where there is none."""
    for place, (_, cells) in enumerate(rows[:_HEADER_ROWS]):
        code = _column(cells, code_column, CODE_COLUMNS)
        term = _column(cells, name_column, NAME_COLUMNS)
        if code is not None and term is not None:
            return place + 1, code, term
    return None


def _without_header(rows: _Rows) -> _Layout | None:
    """The layout of a sheet with a column of codes and one of Chinese names from its first row on; None without them.

    Of several such columns that with the most distinct cells is meant: A00.000, not A00, and 霍乱, not 传染病.
    """
    columns = list(zip_longest(*(cells[:_COLUMNS] for _, cells in rows), fillvalue=""))
    code = _most_distinct(columns, lambda cell: _ICD10.fullmatch(plain_code(cell)) is not None)
    term = _most_distinct(columns, lambda cell: any("\u4e00" <= character <= "\u9fff" for character in cell))
    if code is None or term is None or not rows:
        return None
    cells = rows[0][1]
    # Titles that nobody knows are no term: ICD码, 病名.
    is_title = code >= len(cells) or not _ICD10.fullmatch(plain_code(cells[code]))
    return None if is_title else (0, code, term)


def _most_distinct(columns: Sequence[_Cells], is_one: Callable[[str], bool]) -> int | None:
    found = [place for place, cells in enumerate(columns) if sum(map(is_one, cells)) >= HEADERLESS_SHARE * len(cells)]
    return max(found, key=lambda place: len(set(columns[place])), default=None)


def _no_columns(name: str, sheets: Sequence[_Rows], code_column: str | None, name_column: str | None) -> UserError:
    first = next((rows[0][1] for rows in sheets if rows), ())
    found = ", ".join(cell for cell in first if cell) or "nothing"
    wanted = f"{code_column or 'a code (such as 编码)'} and {name_column or 'a name (such as 名称)'}"
    return UserError(
        f"{name} has no columns for {wanted}; it has {found}. Name the columns (code_column, name_column), or "
        "put a row above the first with their names, such as 编码 and 名称."
    )


def _column(cells: _Cells, given: str | None, usual: Sequence[str]) -> int | None:
    titles = [_title(cell) for cell in cells]
    if given is not None:
        return titles.index(_title(given)) if _title(given) in titles else None
    for title in usual:
        if title in titles:
            return titles.index(title)
    endings = (*usual[:2], usual[-1])
    return next((place for place, title in enumerate(titles) if title.endswith(endings)), None)


def _title(cell: str) -> str:
    plain = unicodedata.normalize("NFKC", cell).lower()
    return "".join(character for character in plain if character.isalnum())
