"""Details of a diagnosis that lists do not name: what is taken off if the list has the name that is left.

    左锁骨中段骨折  →  锁骨骨折, with detail 左, detail 中段
    宫颈CIN3累及腺体  →  CIN3
    慢性胃炎          →  胃炎, with course 慢性, in a list without chronic gastritis

Modifiers (modifiers.py) are taken off wherever they are; these only on trial, so their rows may be bolder: 前 of
肩关节前脱位 falls since 肩关节脱位 is a name, and stays in every disease of which it is a part. Each row sees what the
rows before it left, and after each of them the list is asked.

Time grows with the length of a text times the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.reading.modifiers import Modifier

DETAILS = Path(__file__).parents[1] / "tables" / "diagnosis_details.csv"
"""Default table."""

DETAIL, COURSE = "detail", "course"
"""Kinds of such modifiers. On the course of a disease its code may depend."""

SAME_CATEGORY = 0.71
"""Share of the diseases whose category does not depend on their course: of 284 names of the shipped list that begin
with 急性 or 慢性 and are names without it too, 201 are of the same category."""


class Detail(NamedTuple):
    """A row of the table."""

    kind: str
    pattern: re.Pattern[str]
    example: str
    left: str
    """What is left of the example by this row."""


class Bared(NamedTuple):
    """A text without some of its details."""

    text: str
    details: tuple[Modifier, ...]


def read_details(path: Path = DETAILS) -> tuple[Detail, ...]:
    """Read a table of details.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has another kind, no detail or a faulty regular
            expression. The message names the row.
    """
    rows = []
    for number, row in enumerate(read_table(path, ("kind", "detail", "example", "left")), start=2):
        if row["kind"] not in (DETAIL, COURSE):
            raise UserError(f"{path}, row {number}: the kind {row['kind']!r} is neither {DETAIL} nor {COURSE}.")
        if not row["detail"]:
            raise UserError(f"{path}, row {number} has no detail. Fill it in, or delete the row.")
        try:
            pattern = re.compile(row["detail"], re.IGNORECASE)
            rows.append(Detail(row["kind"], pattern, row["example"], row["left"]))
        except re.error as error:
            raise UserError(f"{path}, row {number} is not a regular expression ({error}).") from error
    return tuple(rows)


class Details:
    """Takes details off texts, on trial."""

    def __init__(self, rows: Sequence[Detail] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._rows = tuple(read_details() if rows is None else rows)

    def bared(self, text: str) -> Iterator[Bared]:
        """Yield a text without its first detail, without its first two, and so on, in the order of the rows."""
        found: list[tuple[int, Modifier]] = []
        left = text
        for row in self._rows:
            shorter = row.pattern.sub("", left)
            if shorter == left or not any(each.isalnum() for each in shorter):
                continue
            words = [match[0].strip(" ()") for match in row.pattern.finditer(left)]
            found += [(text.find(word), Modifier(row.kind, word)) for word in words if word]
            left = shorter.strip(" ,;:、.-")
            yield Bared(left, tuple(one for _, one in sorted(found, key=lambda each: each[0])))
