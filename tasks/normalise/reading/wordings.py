r"""Wordings: what doctors write for a disease in other words than lists have, written as a list has it.

    wording,written,example,result
    DM ?\(?([12])型\)?,\1型糖尿病,DM(2型),2型糖尿病

Wordings are regular expressions over an item of a text in its NFKC form; case does not matter. They differ from
complications (complications.py) in that they are applied first, and to single diseases: L1椎体骨折 is 腰椎骨折.

Time grows with the length of a text times the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table

WORDINGS = Path(__file__).parents[1] / "tables" / "diagnosis_wordings.csv"
"""Default table."""


class Wording(NamedTuple):
    """A row of the table."""

    pattern: re.Pattern[str]
    written: str
    example: str
    result: str
    """The example as all rows write it."""


def read_wordings(path: Path = WORDINGS) -> tuple[Wording, ...]:
    """Read a table of wordings.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has no wording, no example, or a faulty regular
            expression. The message names the row.
    """
    rows = []
    for number, row in enumerate(read_table(path, ("wording", "written", "example", "result")), start=2):
        if not row["wording"] or not row["example"]:
            raise UserError(f"{path}, row {number} needs a wording and an example. Fill them in, or delete the row.")
        try:
            pattern = re.compile(row["wording"], re.IGNORECASE)
            pattern.sub(row["written"], row["example"])
        except (re.error, IndexError) as error:
            raise UserError(f"{path}, row {number} is not a regular expression ({error}).") from error
        rows.append(Wording(pattern, row["written"], row["example"], row["result"]))
    return tuple(rows)


class Wordings:
    """Writes texts in the words of lists."""

    def __init__(self, rows: Sequence[Wording] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._rows = tuple(read_wordings() if rows is None else rows)

    def written(self, text: str) -> str:
        """Return a text in the words of lists; the text itself if no row fits."""
        for row in self._rows:
            text = row.pattern.sub(row.written, text)
        return text
