"""A cell of a user's file, with its place for messages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from infra.errors import UserError
from tasks.files.workbooks import text_of

SHOWN = 60
"""Characters of a value that a message quotes."""


class Cell(NamedTuple):
    """A value, and where it is."""

    path: Path
    place: str
    """`line 7` or `row 7`."""
    column: str
    value: Any

    def error(self, problem: str) -> UserError:
        """Return an error about this cell."""
        return UserError(f"{self.path}, {self.place}, column {self.column!r}: {problem}")

    @property
    def is_empty(self) -> bool:
        """True for no value, NaN, blanks and empty lists."""
        value = self.value
        return value is None or value == [] or (isinstance(value, float) and math.isnan(value)) or not self._plain()

    @property
    def text(self) -> str:
        """The value as text; a number as a spreadsheet shows it.

        Raises:
            UserError: it is a list or an object.
        """
        if isinstance(self.value, list | tuple | dict):
            raise self.error(f"expected a text, got {quoted(self.value)}. Write the value itself.")
        return "" if self.is_empty else text_of(self.value)

    def _plain(self) -> bool:
        return bool(str(self.value).strip())


def quoted(value: Any) -> str:
    """Return a value as messages show it."""
    text = str(value)
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
