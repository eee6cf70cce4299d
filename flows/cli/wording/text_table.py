"""Tables in plain text, whose columns stay aligned with Chinese in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

WIDE = frozenset("WF")
"""East Asian widths of characters that take two columns of a terminal."""


def text_table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return rows with the same keys as lines under a line of the keys; none for no rows."""
    if not rows:
        return []
    columns = list(rows[0])
    lines = [columns, *([row[name] for name in columns] for row in rows)]
    widths = [max(width(line[place]) for line in lines) for place in range(len(columns))]
    return ["  ".join(padded(*cell) for cell in zip(line, widths, strict=True)).rstrip() for line in lines]


def padded(text: str, columns: int) -> str:
    """Return a text with as many spaces after it as it lacks columns; numbers have them before it."""
    space = " " * max(0, columns - width(text))
    is_number = text[:1].isdigit() and text.replace(",", "").replace(".", "", 1).isdigit()
    return space + text if is_number else text + space


def width(text: str) -> int:
    """Return the columns that a text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in WIDE else 1 for one in text
    )
