"""Cells of tables that people open in a spreadsheet: text that the program would run as a formula is made inert.

    =HYPERLINK("http://…")   →   '=HYPERLINK("http://…")
    肺炎;=1+1                →   肺炎;'=1+1
    -5.2, +8613812345678     stay: they are numbers

Where a locale separates lists by semicolons, Excel cuts the lines of a CSV at these. So a cell may begin behind each of
them, and behind a tab or a line's end. `original` takes the apostrophes away again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Matches "=1+1", "+cmd", "-2+3", "@SUM(A1)", full-width ＝１ (Excel in Chinese runs it), a leading tab or line end, and
# what `inert` made of them: "'=1+1".
# Not: "肺炎", "a=1", "-5.2", "- ", "'quoted'"
_RUNS = re.compile(r"'*[=+\-@＝＋－＠\x00-\x1f]")
# Matches "-5.2", "+8613812345678", "-1e-3", "-" and "--", not "-2+3".
_HARMLESS = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[-+]+")
# Matches the last four characters of "肺炎;=1+1", and " =1" of "a\t =1" as it is.
# Not: "；=1", ";肺炎"
_BEHIND_SEPARATOR = re.compile(r"(?<=[;\t\r\n])[^;\t\r\n]+")


def inert(cell: str) -> str:
    """Return a cell as a spreadsheet shows it: with an apostrophe before all that it would run."""
    return _each_part(cell, lambda part: f"'{part}" if _RUNS.match(part) and not _HARMLESS.fullmatch(part) else part)


def original(cell: str) -> str:
    """Return the text that `inert` made a cell of."""
    return _each_part(cell, lambda part: part[1:] if part.startswith("'") and _RUNS.match(part) else part)


def _each_part(cell: str, change: Callable[[str], str]) -> str:
    """Return a cell with the parts behind its separators changed, then as a whole."""
    return change(_BEHIND_SEPARATOR.sub(lambda part: change(part[0]), cell))
