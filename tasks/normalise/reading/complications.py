r"""Complications that ICD-10 codes together with their disease, written as the name of both.

    disease,complication,combined,example
    ((?:1型|2型)?糖尿病),(?:糖尿病)?(?:性)?酮症(?:酸中毒)?,\1酮症酸中毒,1型糖尿病伴酮症

Both columns are regular expressions. Between them may be 伴, 合并, 并发 and the like, a comma, a blank or nothing:
2型糖尿病合并肾病, 2型糖尿病,糖尿病肾病 and 2型糖尿病肾病 are the same. What has no row is left to the rules for
compounds (tasks/normalise/queries/compounds.py), which code both parts, or the whole if the list has its name.

Time grows with the length of a text times the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table

COMPLICATIONS = Path(__file__).parents[1] / "tables" / "diagnosis_complications.csv"
"""Default table."""

# Matches 合并 of 糖尿病合并肾病 and "," of "糖尿病,糖尿病肾病".
_JOINED = r"(?:[,、+\s]*(?:(?<![不未无])(?:伴有|伴发|伴|合并|并发|并)|及|和|引起的?|所致|致)[,、\s]*|[,、+\s]*)"


class Complication(NamedTuple):
    """A row of the table."""

    pattern: re.Pattern[str]
    combined: str
    example: str


def read_complications(path: Path = COMPLICATIONS) -> tuple[Complication, ...]:
    """Read a table of complications.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has an empty cell or a faulty regular expression.
            The message names the row.
    """
    columns = ("disease", "complication", "combined", "example")
    rows = []
    for number, row in enumerate(read_table(path, columns), start=2):
        if not all(row[column] for column in columns):
            raise UserError(f"{path}, row {number} has an empty cell. Fill it, or delete the row.")
        try:
            # The complication ends its part: 糖尿病足 is not found in 糖尿病足月分娩.
            ends = r"(?=$|[,;、+()\s]|伴|合并|并|及|和)"
            pattern = re.compile(f"(?:{row['disease']}){_JOINED}(?:{row['complication']}){ends}", re.IGNORECASE)
            pattern.sub(row["combined"], row["example"])
        except (re.error, IndexError) as error:
            raise UserError(f"{path}, row {number} is not a regular expression ({error}).") from error
        rows.append(Complication(pattern, row["combined"], row["example"]))
    return tuple(rows)


class Complications:
    """Writes diseases with their complications as one name."""

    def __init__(self, rows: Sequence[Complication] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._rows = tuple(read_complications() if rows is None else rows)

    def written(self, text: str) -> str:
        """Return a text with the combined names; the text itself if no row fits."""
        # T2DM伴肾病 is read as 2型糖尿病伴肾病; other short forms are spelled out by the queries.
        plain = _SHORT.sub(lambda match: _LONG[match[0].lower()], text)
        written = plain
        for row in self._rows:
            written = row.pattern.sub(row.combined, written)
        return text if written == plain else written


_LONG = {"t1dm": "1型糖尿病", "t2dm": "2型糖尿病", "i型糖尿病": "1型糖尿病", "ii型糖尿病": "2型糖尿病"}
_SHORT = re.compile(r"(?<![a-z\d])(?:t[12]dm|ii?型糖尿病)", re.IGNORECASE)
