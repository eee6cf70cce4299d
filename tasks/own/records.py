"""Records of a user's file: texts, answer, group and split of each row, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.readers.tables import Needed, table_rows
from tasks.downstream.records import Answer, Entity
from tasks.downstream.spec import SPLITS, Reject, Row, Split
from tasks.own import spans
from tasks.own.cells import Cell, quoted
from tasks.own.params import Form, OwnTaskParams

SPLIT_NAMES: Mapping[str, Split] = {
    **{split: split for split in SPLITS},
    "valid": "dev", "validation": "dev", "val": "dev", "eval": "dev",
    "训练": "train", "训练集": "train", "验证": "dev", "验证集": "dev", "开发集": "dev",
    "测试": "test", "测试集": "test",
}  # fmt: skip
"""Values of a column of splits, in lower case."""

_YES_NO = {"true": "1", "false": "0", "yes": "1", "no": "0", "是": "1", "否": "0", "相关": "1", "不相关": "0"}
"""Words for relevance, in lower case."""

_OPTIONS: Mapping[Form, str] = {
    "classify": "text_field and label_field",
    "pairs": "text_field, second_text_field and label_field",
    "tag": "text_field and label_field, or markup=brackets for entities in the text",
    "rank": "query_field, candidate_field and relevance_field",
}


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """One row of a user's file."""

    path: Path
    place: str
    """`line 7` or `row 7`."""
    texts: tuple[str, ...]
    answer: Answer
    group: str | None = None
    """Value of the column whose equal values stay together."""
    split: Split | None = None
    """Split that the row names itself."""

    @property
    def labels(self) -> list[str]:
        """The label, the labels, or the types of the entities."""
        if isinstance(self.answer, str):
            return [self.answer]
        assert isinstance(self.answer, tuple)
        return [one.type if isinstance(one, Entity) else str(one) for one in self.answer]


def read_records(path: Path, params: OwnTaskParams) -> tuple[list[OwnRecord], list[Reject]]:
    """Return the records of a file, and the rows that were left out: without text, or without an answer.

    Raises:
        UserError: a column is missing, or a value cannot be read; the message names file, row and column.
    """
    others = () if params.markup == "brackets" and params.form == "tag" else (params.label_field,)
    extra = tuple(name for name in (params.group_field, params.split_field) if name is not None)
    remedy = f"Name yours with {_OPTIONS[params.form]}." if not extra else "Name the columns as the file does."
    records: list[OwnRecord] = []
    rejects: list[Reject] = []
    for row in table_rows(path, Needed(params.text_fields, (*others, *extra)), remedy):
        found = _record(path, row, params)
        if isinstance(found, Reject):
            rejects.append(found)
        else:
            records.append(found)
    if not records:
        reasons = ", ".join(f"{count:,} {why}" for why, count in Counter(one.reason for one in rejects).items())
        raise UserError(f"{path}: no row has a text and an answer ({reasons}). Check the names of the columns.")
    return records, rejects


def _record(path: Path, row: Row, params: OwnTaskParams) -> OwnRecord | Reject:
    def cell(column: str) -> Cell:
        return Cell(path, row.place, column, row.fields.get(column))

    texts = tuple(cell(name).text for name in params.text_fields)
    empty = next((name for name, text in zip(params.text_fields, texts, strict=True) if not text.strip()), None)
    if empty is not None:
        return Reject(path.name, row.place, "empty_text", f"{empty} has no characters", "record")
    texts, answer = _ANSWERS[params.form](texts, cell, params)
    if answer is None:
        return Reject(path.name, row.place, "no_answer", f"{params.label_field} is empty", "record")
    group = cell(params.group_field).text if params.group_field is not None else ""
    return OwnRecord(path, row.place, texts, answer, group or None, _split(cell, params))


_Read = Callable[[tuple[str, ...], Callable[[str], Cell], OwnTaskParams], tuple[tuple[str, ...], Answer | None]]
"""Takes the texts and the cells of a row; returns the texts without markup, and the answer if there is one."""


def _label(texts: tuple[str, ...], cell: Any, params: OwnTaskParams) -> tuple[tuple[str, ...], Answer | None]:
    given = cell(params.label_field)
    if params.label_separator is None:
        return texts, given.text.strip() or None
    values = given.value if isinstance(given.value, list) else given.text.split(params.label_separator)
    if not all(isinstance(one, str | int) for one in values):
        raise given.error(f"expected labels, got {quoted(given.value)}.")
    return texts, tuple(sorted({str(one).strip() for one in values} - {""})) or None


def _relevance(texts: tuple[str, ...], cell: Any, params: OwnTaskParams) -> tuple[tuple[str, ...], Answer | None]:
    given = cell(params.label_field)
    word = given.text.strip().lower()
    value = _YES_NO.get(word, word)
    if value and not value.isdecimal():
        raise given.error(f"{quoted(given.value)} is no relevance. Use 1 and 0, yes and no, or grades such as 0 to 3.")
    return texts, str(int(value)) if value else None


def _entities(texts: tuple[str, ...], cell: Any, params: OwnTaskParams) -> tuple[tuple[str, ...], Answer | None]:
    (text,) = texts
    if params.markup == "brackets":
        plain, found = spans.brackets(cell(params.text_fields[0]))
        return (plain,), found
    given = cell(params.label_field)
    if given.is_empty and given.value != []:
        return texts, None
    return texts, (spans.tags if params.markup == "bio" else spans.offsets)(given, text)


_ANSWERS: Mapping[Form, _Read] = {"classify": _label, "pairs": _label, "tag": _entities, "rank": _relevance}


def _split(cell: Callable[[str], Cell], params: OwnTaskParams) -> Split | None:
    if params.split_field is None:
        return None
    given = cell(params.split_field)
    found = SPLIT_NAMES.get(given.text.strip().lower())
    if found is None:
        raise given.error(f"{quoted(given.value)} is not a split. Use train, dev and test (训练, 验证, 测试).")
    return found


def spec_name(params: OwnTaskParams, records: Sequence[OwnRecord]) -> str:
    """Return the entry of tasks/downstream/catalogue/own.py that the records belong to."""
    if params.form == "classify" and params.label_separator is not None:
        return "labels"
    if params.form == "rank" and {record.answer for record in records} - {"0", "1"}:
        return "grades"
    return params.form
