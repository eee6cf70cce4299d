"""Table of cues: words that deny, doubt or date a diagnosis, say whose it is, or show that a text is none.

    cue,status,place,reach,example
    否认,negated,anywhere,sentence,否认高血压、糖尿病、冠心病史

A cue is a regular expression over an item of a text (tasks/normalise/reading/statements.py) in its NFKC form; case does
not matter. Rows are in order of precedence: 否认糖尿病家族史 is negated, since that row comes before the one of 家族史.
`<disease>` in a cue stands for what ends the name of a disease: 无.{1,15}<disease>, for 无消化道出血.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.queries.compounds import DISEASE_END

CUES = Path(__file__).parents[1] / "tables" / "diagnosis_cues.csv"
"""Default table."""

_COLUMNS = ("cue", "status", "place", "reach", "example")


class Status(StrEnum):
    """What becomes of a part of a text."""

    CODED = "coded"
    """A diagnosis of the patient; it gets a code."""
    NEGATED = "negated"
    """否认糖尿病"""
    UNCERTAIN = "uncertain"
    """肺炎待排"""
    FAMILY = "family"
    """母亲有糖尿病"""
    HISTORY = "history"
    """10年前患肺结核"""
    PROCEDURE = "procedure"
    """阑尾切除术"""
    NOT_DIAGNOSIS = "not_diagnosis"
    """低盐饮食"""
    CODE_ONLY = "code_only"
    """E11.9"""


PLACES: Mapping[str, str] = {
    "before": "^(?:{})",  # 怀疑 of 怀疑甲亢
    "after": "(?:{})$",  # 史 of 高血压史
    "whole": "^(?:{})$",  # 2023-04-12, the whole item
    "anywhere": "(?:{})",  # 待排 of 肺炎(待排)
    "text": "^(?:{})$",  # 急性, if it is all that the text says
}
"""Where in an item a cue stands, as the table names it, with the pattern that this makes of it."""

REACHES = ("item", "clause", "sentence")
"""How far a cue reaches: its item, or to the end of the clause or sentence, but backwards for a cue that stands after.

Items end at 、 and the like, clauses at commas, sentences at full stops, semicolons and numbers of a list.
"""


@dataclass(frozen=True, slots=True)
class Cue:
    """A row of the table."""

    pattern: re.Pattern[str]
    status: Status
    place: str
    """One of `PLACES`."""
    reach: str
    """One of `REACHES`."""
    example: str
    """A text with the cue, which gets its status."""


def read_cues(path: Path = CUES) -> tuple[Cue, ...]:
    """Read a table of cues.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has an unknown status, place or reach, or a cue
            that is no regular expression or is not in its example. The message names the row.
    """
    return tuple(_cue(path, number, row) for number, row in enumerate(read_table(path, _COLUMNS), start=2))


def cues_for(cues: Sequence[Cue], procedures: bool) -> tuple[Cue, ...]:
    """Return the cues for a list: of a list of procedures, those that refuse procedures and examinations are left out.

    What denies, doubts or is no text at all (见病历) is refused for any list.
    """
    refusing = (Status.PROCEDURE, Status.HISTORY)
    return tuple(
        one
        for one in cues
        if not procedures
        or (one.status not in refusing and (one.status != Status.NOT_DIAGNOSIS or one.place == "text"))
    )


def _cue(path: Path, number: int, row: Mapping[str, str]) -> Cue:
    for column, known in (("status", [*Status][1:]), ("place", PLACES), ("reach", REACHES)):
        if row[column] not in known:
            raise UserError(f"{path}, row {number}: {column} {row[column]!r} must be one of {', '.join(known)}.")
    if not row["cue"]:
        raise UserError(f"{path}, row {number} has no cue. Fill it in, or delete the row.")
    try:
        cue = row["cue"].replace("<disease>", DISEASE_END)
        pattern = re.compile(PLACES[row["place"]].format(cue), re.IGNORECASE)
    except re.error as error:
        raise UserError(f"{path}, row {number}: {row['cue']!r} is not a regular expression ({error}).") from error
    return Cue(pattern, Status(row["status"]), row["place"], row["reach"], row["example"])
