"""Lists of standard terms from users: CSV, TSV or XLSX with a column of codes and a column of names.

tasks/normalise/terms/sheets.py reads the rows of a file, tasks/normalise/terms/columns.py finds the two columns. Codes
keep their extensions (K25.900x001). Their width, case and white space are normalised, and the dagger and asterisk of
ICD-10 are removed. A list is held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.errors import UserError
from tasks.normalise.terms.columns import NamedColumns, Rows, find_layout, listed_code
from tasks.normalise.terms.sheets import Cells, read_sheets

MAX_NAME = 500
"""Number of characters of the longest name accepted; a longer one comes from a broken row."""

LOOKED_AT = 1_000
"""Number of rows that are looked at before the whole list is read."""


class ListedTerm(NamedTuple):
    """A row of a list."""

    row: int
    """Number of the row in the file, from 1."""
    code: str
    term: str


class Rejected(NamedTuple):
    """A row that is not a term."""

    row: int
    reason: str
    detail: str
    text: str


def read_term_list(
    data: bytes, name: str, code_column: str | None = None, name_column: str | None = None
) -> tuple[list[ListedTerm], list[Rejected]]:
    """Read the rows of a file; empty rows are skipped.

    Args:
        name: name of the file; its suffix determines the format.
        code_column: title of the column of codes; by default it is recognised by its title or content.
        name_column: title of the column of names; likewise.

    Raises:
        UserError: the file does not have the format of its suffix, or lacks a column; the message lists its columns.
    """
    sheets = _numbered(read_sheets(data, name))
    wanted = NamedColumns(code_column, name_column)
    found = find_layout(sheets, wanted)
    if found is None:
        raise _no_columns(name, sheets, wanted)
    rows, layout = found
    terms, rejects = [], []
    for number, cells in rows[layout.first_row :]:
        text = " | ".join(cells)
        code, term = (cells[at] if at < len(cells) else "" for at in (layout.code, layout.term))
        if not term:
            rejects.append(Rejected(number, "empty_name", f"code {code}", text))
        elif len(term) > MAX_NAME:
            rejects.append(Rejected(number, "long_name", f"{len(term):,} characters; is a quote missing?", text))
        else:
            terms.append(ListedTerm(number, listed_code(code), term))
    return terms, rejects


def check_term_list(data: bytes, name: str, code_column: str | None = None, name_column: str | None = None) -> None:
    """Look for the columns and the first terms of a file, as `read_term_list` would find them, within a second or two.

    Raises:
        UserError: the file does not have the format of its suffix, or lacks a column, or has no row below its header.
    """
    wanted = NamedColumns(code_column, name_column)
    sheets = _numbered(read_sheets(data, name, LOOKED_AT))
    found = find_layout(sheets, wanted)
    if found is None:
        # Columns without titles are recognised by their cells, of which the first may be unlike the rest.
        sheets = _numbered(read_sheets(data, name))
        found = find_layout(sheets, wanted)
    if found is None:
        raise _no_columns(name, sheets, wanted)
    rows, layout = found
    if len(rows) <= layout.first_row:
        raise UserError(f"{name} has a header, but no terms below it. Give a list with terms.")


def _numbered(sheets: Sequence[Sequence[Cells]]) -> list[Rows]:
    """Return the rows that are not empty, with their numbers."""
    return [[(number, cells) for number, cells in enumerate(sheet, start=1) if any(cells)] for sheet in sheets]


def _no_columns(name: str, sheets: Sequence[Rows], wanted: NamedColumns) -> UserError:
    first = next((rows[0][1] for rows in sheets if rows), ())
    found = ", ".join(cell for cell in first if cell) or "nothing"
    missing = f"{wanted.code or 'a code (such as 编码)'} and {wanted.term or 'a name (such as 名称)'}"
    return UserError(
        f"{name} has no columns for {missing}; it has {found}. Give their titles (terminology.code_column, "
        "terminology.name_column), or insert a first row with titles such as 编码 and 名称."
    )
