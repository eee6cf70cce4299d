"""Modifiers of a diagnosis: stages, grades, risk groups, sides, dates and treatments, understood and taken off.

    右肺腺癌 cT2N1M0 IIB期 术后  →  肺腺癌, with side 右, stage cT2N1M0, stage IIB期, after 术后
    高血压3级 很高危             →  高血压, with grade 3级, risk 很高危

Rows of a table, each a regular expression over an item of a text in its NFKC form; case does not matter. What is taken
off is kept, in the order of the text. It is taken off only if the name of a disease is left: 冠状动脉搭桥术后 stays,
since 冠状动脉 is no disease. Whether an item is a name of the list, which is never touched, is for the caller to say.

Time grows with the length of a text times the number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from tasks.normalise.queries.compounds import names_disease

MODIFIERS = Path(__file__).parents[1] / "tables" / "diagnosis_modifiers.csv"
"""Default table."""

PROCEDURE = "procedure"
KINDS = (
    *("stage", "grade", "risk", "side", "site", "form", "age", "date", "after", "recurrence", "open", "marker", "size"),
    *("pregnancy", PROCEDURE),
)
"""What a modifier says: of 发热待查 that the cause is open, of 乳腺癌术后 that it was treated."""

NOTE = "note"
"""Kind of what follows a name after a blank and is no modifier of the table (tasks/normalise/reading/notes.py)."""


@dataclass(frozen=True, slots=True)
class Modifier:
    """A modifier of a text."""

    kind: str
    """One of `KINDS`, `NOTE`, `code` (tasks/normalise/reading/written_codes.py), or a kind of details.py."""
    text: str
    """As written, in NFKC form."""
    of: str = ""
    """Of a course, the name that is searched without it."""


@dataclass(frozen=True, slots=True)
class ModifierRule:
    """A row of the table."""

    kind: str
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None
    """Found in an item, it keeps the row from it: a stage of 慢性肾脏病 is part of the name."""
    example: str
    left: str
    """What is left of the example by all rows."""


def read_modifiers(path: Path = MODIFIERS) -> tuple[ModifierRule, ...]:
    """Read a table of modifiers.

    Raises:
        UserError: the file is unreadable or lacks a column, or a row has an unknown kind, no modifier or a faulty
            regular expression. The message names the row.
    """
    rows = enumerate(read_table(path, ("kind", "modifier", "unless", "example", "left")), start=2)
    return tuple(_rule(path, number, row) for number, row in rows)


def _rule(path: Path, number: int, row: dict[str, str]) -> ModifierRule:
    if row["kind"] not in KINDS:
        raise UserError(f"{path}, row {number}: kind {row['kind']!r} must be one of {', '.join(KINDS)}.")
    if not row["modifier"]:
        raise UserError(f"{path}, row {number} has no modifier. Fill it in, or delete the row.")
    try:
        pattern, unless = (re.compile(row[name], re.IGNORECASE) for name in ("modifier", "unless"))
    except re.error as error:
        raise UserError(f"{path}, row {number} is not a regular expression ({error}).") from error
    return ModifierRule(row["kind"], pattern, unless if row["unless"] else None, row["example"], row["left"])


def modifiers_for(rules: Sequence[ModifierRule], procedures: bool) -> tuple[ModifierRule, ...]:
    """Return the rows for a list: of a list of procedures, a procedure is what is searched."""
    return tuple(one for one in rules if not procedures or one.kind != PROCEDURE)


class Modifiers:
    """Takes modifiers off the items of a text."""

    def __init__(self, rules: Sequence[ModifierRule] | None = None) -> None:
        """Take the rows; by default those of the table."""
        self._rules = tuple(read_modifiers() if rules is None else rules)

    def taken_off(self, item: str) -> tuple[str, tuple[Modifier, ...]]:
        """Return what is left of an item, and its modifiers in the order of the text."""
        left, found = item, list[tuple[int, Modifier]]()
        for rule in self._rules:
            # Each row sees what the rows before it left, so 术后 of 术后3年 is one modifier.
            if rule.unless is None or not rule.unless.search(item):
                left, own = _without(rule, left)
                found += own
        rest = _tidy(left)
        # Of 骨折(桡骨远端) the disease stands before the note.
        if not found or not (names_disease(rest) or names_disease(_NOTE.sub("", rest))):
            return item, ()
        # Sorted by place: blanks stand where modifiers were, so places are those of the item.
        return rest, tuple(one for _, one in sorted(found, key=lambda each: each[0]))

    def only(self, item: str, text: str) -> tuple[Modifier, ...]:
        """Return the modifiers of an item that is nothing else, such as 心功能III级, and none for any other item.

        Args:
            text: the whole text, which may keep a row from the item: 3期 is part of the name in 慢性肾脏病,3期.
        """
        for rule in self._rules:
            left, found = _without(rule, item)
            if found and not any(each.isalnum() for each in _tidy(left)):
                return () if rule.unless is not None and rule.unless.search(text) else tuple(one for _, one in found)
        return ()


def _without(rule: ModifierRule, text: str) -> tuple[str, list[tuple[int, Modifier]]]:
    found: list[tuple[int, Modifier]] = []
    if not rule.pattern.search(text):
        return text, found

    def blanked(match: re.Match[str]) -> str:
        if match[0].strip(" ()"):
            found.append((match.start(), Modifier(rule.kind, match[0].strip(" ()"))))
        return _BLANK * len(match[0])

    return rule.pattern.sub(blanked, text), found


_BLANK = "\x00"
"""Stands for each character that was taken off."""
# Matches what modifiers leave behind: brackets without content in 阻塞性睡眠呼吸暂停(), and the blank of "高血压 ".
_EMPTY = re.compile(r"[(\[][\s,;:、]*[)\]]")


# Matches (桡骨远端) of 骨折(桡骨远端), but not (2型) of 糖尿病(2型)肾病.
_NOTE = re.compile(r"\([^()]+\)$")


def _tidy(text: str) -> str:
    plain = text.replace(_BLANK, "")
    while (shorter := _EMPTY.sub("", plain)) != plain:
        plain = shorter
    return re.sub(r"\s{2,}", " ", plain).strip(" ,;:、.-(") if "(" not in plain.strip(" ,;:、.-") else plain.strip()
