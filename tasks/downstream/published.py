"""Scores that the papers print for the downstream tasks, read from published.csv.

One row per score: paper, table, the heading above the model, model, task, split, the figure as printed, its unit, and
how the paper obtained it. `printed` is one number, or `mean/best` of several runs. The task `avg` is the mean over
CBLUE.

For CMedLMs the table holds F1 only; some of its rows are misprints (the bare BiLSTM's on SAHSU repeats BERT's).
ELECTRA+EM+PAP's table repeats EMBERT's scores in its cMedQA column, although they are of another cMedQA: they are
listed under EMBERT only.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("published.csv")
_SCALES = {"percent": 100, "fraction": 1, "score": 1}
"""Divisor of a printed figure by its unit; `score` is cMedIR's PAIR score, which is not a share."""


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A score in a paper's table."""

    source: str
    """Paper and table, such as `eHealth, Table 4`."""
    model: str
    group: str
    """Heading above the model; empty if there is none."""
    task: str
    split: str
    value: float
    """A fraction of 1; for cMedIR the PAIR score."""
    best: float | None
    """Score of the best run, where the paper gives it beside the mean."""
    printed: str


def published(task: str, split: str = "test") -> list[PublishedScore]:
    """Return all scores of a task (or of `avg`, the mean over CBLUE), table by table."""
    return [one for one in all_published() if one.task == task and one.split == split]


@functools.cache
def all_published() -> tuple[PublishedScore, ...]:
    """Return every score, table by table and row by row."""
    with _FILE.open(encoding="utf-8", newline="") as lines:
        return tuple(map(_score, csv.DictReader(lines)))


def _score(row: dict[str, str]) -> PublishedScore:
    mean, *best = (float(number) / _SCALES[row["unit"]] for number in row["printed"].split("/"))
    return PublishedScore(
        source=f"{row['paper']}, {row['table']}",
        model=row["model"],
        group=row["group"],
        task=row["task"],
        split=row["split"],
        value=mean,
        best=best[0] if best else None,
        printed=row["printed"],
    )
