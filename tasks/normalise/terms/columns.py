"""Columns of a term list: which one has the codes and which one the names.

A header may be in one of the first rows, below a title. The first sheet with a header is used. The columns are those
named by the user, or else those with a usual title. If no sheet has a header (CHIP-CDN's list has none), the columns
are recognised by their content, in the first sheet with a column of codes of ICD-10 or ICD-9-CM-3 and one of Chinese
names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from tasks.normalise.terms.sheets import Cells

CODE_TITLES = ("编码", "代码", "诊断编码", "疾病编码", "诊断代码", "疾病代码", "icd编码", "icd10编码", "icd10", "code")
CODE_ENDINGS = ("编码", "代码", "code")
NAME_TITLES = ("名称", "诊断名称", "疾病名称", "疾病诊断名称", "标准名称", "标准词", "诊断", "name", "term")
NAME_ENDINGS = ("名称", "诊断名称", "term")
"""Usual titles, in order of preference, then usual endings of titles (主要编码). Compared as `_title` returns them."""

HEADERLESS_SHARE = 0.95
"""Share of rows of a sheet without a header that must have a code of ICD-10 or ICD-9-CM-3, and a Chinese name."""

_HEADER_ROWS = 20
"""Number of rows searched for a header."""
_COLUMNS = 50
"""Number of columns considered in a sheet without a header."""

# Codes after `plain_code`: matches A00, E11.9, K25.900X001, M81400/3 and 51.2300X001 of ICD-9-CM-3 as a whole, but not
# 12, 12.5, B or 合计.
_CODE = re.compile(r"[A-Z]\d[0-9A-Z](?:\.?[0-9A-Z+/-]*)|\d\d\.\d[0-9]{1,3}(?:X\d+)?")

Rows = Sequence[tuple[int, Cells]]
"""Rows of a sheet that are not empty, with their numbers."""


class NamedColumns(NamedTuple):
    """Titles of the columns given by the user; None if not given."""

    code: str | None = None
    term: str | None = None


class Layout(NamedTuple):
    """Where the terms are."""

    first_row: int
    """Position of the first term among the rows."""
    code: int
    """Position of the column of codes."""
    term: int
    """Position of the column of names."""


def find_layout(sheets: Sequence[Rows], wanted: NamedColumns) -> tuple[Rows, Layout] | None:
    """Return the first sheet with both columns and its layout, or None. Headers take precedence over content."""
    for rows in sheets:
        if layout := _below_header(rows, wanted):
            return rows, layout
    if wanted == NamedColumns():
        for rows in sheets:
            if layout := _without_header(rows):
                return rows, layout
    return None


def plain_code(code: str) -> str:
    """Return a code in the form in which codes are compared: `ｅ14.9 †` is E14.9, `k25.900 x001` is K25.900X001."""
    return listed_code(code).upper().rstrip("†*+↑")


def significant_code(code: str) -> str:
    """Return a code without what national lists pad it with: E11.9 for E11.900, I10 for I10.x00."""
    stem, point, rest = plain_code(code).partition(".")
    kept = rest.removeprefix("X00") if rest.startswith("X00") else rest[:1] + rest[1:].removeprefix("00")
    return f"{stem}{point}{kept}" if kept else stem


def listed_code(code: str) -> str:
    """Return a code as its list writes it, without blanks: `ｋ25.900 x001` is k25.900x001, `E14.9 †` E14.9†.

    Hospitals join tables by codes, and national lists extend ICD-10 by a small x.
    """
    return "".join(unicodedata.normalize("NFKC", code).split())


def _below_header(rows: Rows, wanted: NamedColumns) -> Layout | None:
    for place, (_, cells) in enumerate(rows[:_HEADER_ROWS]):
        code = _column(cells, wanted.code, CODE_TITLES, CODE_ENDINGS)
        term = _column(cells, wanted.term, NAME_TITLES, NAME_ENDINGS)
        if code is not None and term is not None:
            return Layout(place + 1, code, term)
    return None


def _without_header(rows: Rows) -> Layout | None:
    """Return the layout of a sheet whose first row is a term, or None.

    If several columns fit, the one with most distinct cells is used: A00.000 rather than A00, 霍乱 rather than 传染病.
    """
    columns = list(zip_longest(*(cells[:_COLUMNS] for _, cells in rows), fillvalue=""))
    code = _most_distinct(columns, _is_code)
    term = _most_distinct(columns, lambda cell: any("\u4e00" <= character <= "\u9fff" for character in cell))
    if code is None or term is None or not rows:
        return None
    # A first row without a code is a header with unknown titles, such as ICD码 and 病名.
    cells = rows[0][1]
    is_term = code < len(cells) and _is_code(cells[code])
    return Layout(0, code, term) if is_term else None


def _is_code(cell: str) -> bool:
    return _CODE.fullmatch(plain_code(cell)) is not None


def _most_distinct(columns: Sequence[Cells], fits: Callable[[str], bool]) -> int | None:
    found = [place for place, cells in enumerate(columns) if sum(map(fits, cells)) >= HEADERLESS_SHARE * len(cells)]
    return max(found, key=lambda place: len(set(columns[place])), default=None)


def _column(cells: Cells, given: str | None, usual: Sequence[str], endings: tuple[str, ...]) -> int | None:
    titles = [_title(cell) for cell in cells]
    if given is not None:
        return titles.index(_title(given)) if _title(given) in titles else None
    for title in usual:
        if title in titles:
            return titles.index(title)
    return next((place for place, title in enumerate(titles) if title.endswith(endings)), None)


def _title(cell: str) -> str:
    """Return the letters and digits of a title, in lower case and normal width: ICD-10 编码 is icd10编码."""
    plain = unicodedata.normalize("NFKC", cell).lower()
    return "".join(character for character in plain if character.isalnum())
