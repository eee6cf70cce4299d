"""Review file: answers that the normaliser is not sure of, with their candidates, for a person to decide.

A row stands for a text, however often it occurs, the most frequent first. The person fills in the column choice: a
code, the number of a candidate, or - for no diagnosis. Filled in, the file is a table of the user's own names
(tasks/normalise/answers/own_names.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.files.tables import write_table
from tasks.files.workbooks import Value
from tasks.normalise.answers import NOT_FOUND, Answer, Normalised
from tasks.normalise.reading import Status
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.icd_categories import same_category

HEADER = ("text", "choice", "count", "rows", "confidence", "reason", "candidates")

_ROWS_SHOWN = 5


@dataclass
class _Item:
    answer: Answer | None
    coded: Sequence[Candidate] | None = None
    """Terms of the codes of a text that is nothing else; None for any other text."""
    count: int = 0
    rows: list[int] = field(default_factory=list)


class Review:
    """Texts to review. Memory grows with their number."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._items: dict[str, _Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, one: Normalised, row: int) -> None:
        """Add what a diagnosis in a row, counted from 1, leaves open."""
        for answer in one.unsure:
            self._count(answer.part, answer, row)
        for part in one.missed:
            self._count(part, None, row)
        if not one.missed and one.statuses == (NOT_FOUND,):
            self._count(one.diagnosis.strip(), None, row)
        for refused in one.refused:
            if refused.status == Status.CODE_ONLY:
                self._count(refused.text, None, row, one.considered)

    def write(self, target: Path, source: Path | None) -> None:
        """Write the file, .csv, .tsv or .xlsx; see `write_table`."""
        write_table(target, source, self._rows(), "review")

    def _count(self, text: str, answer: Answer | None, row: int, coded: Sequence[Candidate] | None = None) -> None:
        item = self._items.setdefault(text, _Item(answer, coded))
        item.count += 1
        item.rows.append(row) if len(item.rows) < _ROWS_SHOWN else None

    def _rows(self) -> Iterator[tuple[Value, ...]]:
        yield HEADER
        # The most frequent first, and of equally frequent ones those that are quickly confirmed.
        order = sorted(self._items.items(), key=lambda one: (-one[1].count, -_confidence(one[1].answer), one[0]))
        for text, item in order:
            rows = " ".join(map(str, item.rows)) + (" …" if item.count > len(item.rows) else "")
            listed = item.coded or () if item.answer is None else item.answer.candidates
            candidates = "\n".join(f"{place}. {one.code} {one.term}" for place, one in enumerate(listed, start=1))
            confidence = None if item.answer is None else round(item.answer.confidence, 3)
            yield text, "", item.count, rows, confidence, self._reason(item), candidates

    def _reason(self, item: _Item) -> str:
        answer = item.answer
        if item.coded is not None:
            return "only a code" if item.coded else "only a code, which the list lacks"
        if answer is None:
            return "no answer says anything of it"
        reasons = [f"confidence below {self._threshold:g}"]
        if answer.match is not None:
            named = f" ({answer.match.source})" if answer.match.source else ""
            reasons.append(f"found by {answer.match.name}{named}")
            if answer.match.unmatched:
                reasons.append(f"which lacks {' '.join(answer.match.unmatched)}")
        rival = next((one for one in answer.candidates if not same_category(one.code, answer.code)), None)
        if rival is not None:
            reasons.append(f"also possible: {rival.code} {rival.term}")
        return "; ".join(reasons)


def _confidence(answer: Answer | None) -> float:
    return -1.0 if answer is None else answer.confidence
