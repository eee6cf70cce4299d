"""Cells of tables that people open in a spreadsheet: text that the program would run as a formula is made inert.

    =HYPERLINK("http://…")   →   '=HYPERLINK("http://…")
    -5.2, +8613812345678     stay: they are numbers

`original` takes the apostrophe away again.
"""

from __future__ import annotations

import re

# Matches "=1+1", "+cmd", "-2+3", "@SUM(A1)", full-width ＝１ (Excel in Chinese runs it), a leading tab or line end, and
# what `inert` made of them: "'=1+1".
# Not: "肺炎", "a=1", "-5.2", "- ", "'quoted'"
_RUNS = re.compile(r"'*[=+\-@＝＋－＠\x00-\x1f]")
# Matches "-5.2", "+8613812345678", "-1e-3", "-" and "--", not "-2+3".
_HARMLESS = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[-+]+")


def inert(cell: str) -> str:
    """Return a cell as a spreadsheet shows it: with an apostrophe before what it would run."""
    return f"'{cell}" if _RUNS.match(cell) and not _HARMLESS.fullmatch(cell) else cell


def original(cell: str) -> str:
    """Return the text that `inert` made a cell of."""
    return cell[1:] if cell.startswith("'") and _RUNS.match(cell) else cell
