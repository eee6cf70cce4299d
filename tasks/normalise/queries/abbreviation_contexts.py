"""Contexts that decide what an abbreviation means.

    short,expansion,context,example
    ms,二尖瓣狭窄,心|房颤|瓣,房颤、MS

A context is a regular expression over the rest of the diagnosis in the normal form of kg/names.py. Without a context,
or with those of several expansions, an abbreviation has the readings of the table of abbreviations, and a person
decides. An expansion that only this table has is a reading in its context alone: PD is 帕金森病, and 惊恐障碍 beside
焦虑.

Time grows with the length of a text times the rows of the abbreviation that it has.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError
from kg.fusion.vocabularies import read_table

ABBREVIATION_CONTEXTS = Path(__file__).parents[1] / "tables" / "diagnosis_abbreviation_contexts.csv"
"""Default table."""

# Matches ms of "房颤,ms", but not of rms.
_LATIN = re.compile(r"[a-z][a-z0-9]*")


class Context(NamedTuple):
    """A row of the table."""

    short: str
    expansion: str
    context: re.Pattern[str]
    example: str


def read_abbreviation_contexts(path: Path = ABBREVIATION_CONTEXTS) -> tuple[Context, ...]:
    """Read a table of contexts.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has an empty cell or a faulty regular expression.
            The message names the row.
    """
    columns = ("short", "expansion", "context", "example")
    rows = []
    for number, row in enumerate(read_table(path, columns), start=2):
        if not all(row[column] for column in columns):
            raise UserError(f"{path}, row {number} has an empty cell. Fill it, or delete the row.")
        try:
            rows.append(Context(row["short"], row["expansion"], re.compile(row["context"]), row["example"]))
        except re.error as error:
            raise UserError(
                f"{path}, row {number}: {row['context']!r} is not a regular expression ({error})."
            ) from error
    return tuple(rows)


class AbbreviationContexts:
    """Decides on readings by the rest of a diagnosis."""

    def __init__(self, rows: tuple[Context, ...] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._rows: dict[str, list[Context]] = defaultdict(list)
        for row in read_abbreviation_contexts() if rows is None else rows:
            self._rows[row.short].append(row)

    def decided(self, text: str, whole: str) -> str:
        """Return a text with its abbreviation written out as the whole diagnosis says; "" if it does not say.

        Both are in normal form.
        """
        for match in _LATIN.finditer(text):
            rows = self._rows.get(match[0])
            if rows is None:
                continue
            rest = re.sub(rf"(?<![a-z0-9]){match[0]}(?![a-z0-9])", "", whole)
            said = [row for row in rows if row.context.search(rest)]
            if len(said) == 1:
                return f"{text[: match.start()]}{said[0].expansion}{text[match.end() :]}"
        return ""
