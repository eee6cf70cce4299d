"""Answered rows as a table: the given columns, then the answer, its probability and that of each label."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.files.columns import distinct_columns
from tasks.files.workbooks import Value
from tasks.finetune.prediction.input import TEXTS

OURS = ("answer", "probabilities", "scores", "marked", "error")
"""Fields that prediction adds to a row."""


class Answered(dict[str, Any]):
    """The given fields of a row; what prediction adds to them is in `added`, by the names of `OURS`."""

    added: dict[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any], **added: Any) -> Answered:
        """Return a row with what is added to it."""
        found = cls(row)
        found.added = added
        return found

    def line(self) -> dict[str, Any]:
        """Return the row as JSON lines have it. A given field with the name of one of ours becomes `answer (given)`.

        So it does where the row got no answer: its own `answer` would pass for one.
        """
        own = {f"{name} (given)" if name in OURS else name: value for name, value in self.items()}
        return {**own, **{name: value for name, value in self.added.items() if name != "marked"}}


def table(rows: Sequence[Answered], labels: Sequence[str]) -> Iterator[list[Value]]:
    """Yield the header and the rows of a table.

    Args:
        labels: labels whose probabilities are columns, `p(发热)`; empty for a task without.
    """
    given = list(dict.fromkeys(name for row in rows for name in row))
    with_marks = any("marked" in row.added for row in rows)
    ours = ["answer", *(["marked"] if with_marks else []), *(["probability"] if labels else [])]
    yield [*distinct_columns([*given, *ours, *(f"p({label})" for label in labels), "error"])]
    for row in rows:
        yield [*(_cell(row.get(name), name) for name in given), *_answers(row.added, labels, with_marks)]


def _answers(added: Mapping[str, Any], labels: Sequence[str], with_marks: bool) -> list[Value]:
    answer, probabilities = added.get("answer"), added.get("probabilities") or {}
    several = isinstance(answer, list) and all(isinstance(one, str) for one in answer)
    cells: list[Value] = [";".join(answer) if several and answer else _cell(answer)]
    if with_marks:
        cells.append(added.get("marked", ""))
    if labels:
        chosen = answer if isinstance(answer, list) else [answer]
        # Of several labels, the row is as sure as its least sure label.
        cells.append(min((probabilities[one] for one in chosen if one in probabilities), default=None))
        cells += [probabilities.get(label) for label in labels]
    return [*cells, added.get("error", "")]


def _cell(value: Any, name: str = "") -> Value:
    if name == TEXTS and isinstance(value, list):
        return "\t".join(map(str, value))
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value
