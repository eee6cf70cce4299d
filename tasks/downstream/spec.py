"""Description of a downstream task, as the catalogue gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.downstream.records import Kind, Record

Split = Literal["train", "dev", "test"]

SPLITS: tuple[Split, ...] = ("train", "dev", "test")

HEADS: Mapping[Kind, str] = {
    Kind.SINGLE: "single",
    Kind.PAIR: "pair",
    Kind.MULTI_LABEL: "multi_label",
    Kind.RANKING: "pair",  # webMedQA: a classifier of pairs, wrong or right (eHealth, appendix E)
    Kind.CHOICE: "choice",
    Kind.TAGGING: "tagging",
    Kind.NESTED_TAGGING: "two_stream",
    Kind.TRIPLES: "triples",
    Kind.NORMALISATION: "pair",  # a mention with each candidate term (eHealth, appendix E)
}
"""Head of models/heads that answers in the shape of a kind."""


class Row(NamedTuple):
    """One example as it is in the file, before any check."""

    place: str
    """Where to find it, for a person: `line 7`, `record 7`."""
    fields: Mapping[str, Any]


Reader = Callable[[Path, "TaskSpec"], Iterator[Row]]
"""Function that yields the rows of a file, with entities, options and triples in the common form of
tasks/downstream/readers/assemble.py.
"""


def files(*patterns: str, dev: str = "dev") -> Mapping[Split, tuple[str, ...]]:
    """Return the file names of each split: `{}` in a pattern becomes train, `dev` or test."""
    words: Mapping[Split, str] = {"train": "train", "dev": dev, "test": "test"}
    return {split: tuple(pattern.format(word) for pattern in patterns) for split, word in words.items()}


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings that fine-tuning tries: every combination of the three."""

    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    epochs: tuple[int, ...]
    source: str
    """Paper and table that the ranges are from."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the fields in a task's rows."""

    texts: tuple[str, ...] = ("text",)
    answer: str = "label"
    record_id: str | None = None
    """Field with the official id; None: records are numbered from 0."""
    group: str | None = None
    """Field whose value the candidates of one question share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One downstream task: its files, answers, metric and fine-tuning settings."""

    name: str
    title: str
    """Name in the papers; also the name of the folder that its files may be in."""
    suites: tuple[str, ...]
    kind: Kind
    reader: Reader
    files: Mapping[Split, tuple[str, ...]]
    """Patterns of the official names, the most likely first."""
    metric: str
    """Metric by which the best run is chosen, a name in tasks/metrics/scores.py."""
    max_length: int
    """Tokens per sequence."""
    grid: Grid
    fields: Fields = Fields()
    labels: tuple[str, ...] | None = None
    """Classes, entity types or predicates, where the benchmark fixes them; None: those of the training file."""
    more_metrics: tuple[str, ...] = ()
    same_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the files spell differently, and the label that each is read as: KUAKE-QQR's NA is 0."""
    columns: tuple[str, ...] = ()
    """Column names of files without a header."""
    nested_types: tuple[str, ...] = ()
    """NESTED_TAGGING: types of the first stream, whose entities may contain others."""
    parquet: str | None = None
    """File that holds all splits, distinguished by its column `orig_split`."""
    submission: str | None = None
    """Name of the file that the benchmark accepts."""
    sizes: tuple[int, int, int] | None = None
    """Examples in train, dev and test, according to the papers."""
    note: str = ""

    @property
    def head(self) -> str:
        """Head of models/heads for this task."""
        return HEADS[self.kind]

    @property
    def answers_whole_texts(self) -> bool:
        """True if a text, a pair or an option has one answer, false if tokens are judged."""
        return self.kind not in (Kind.TAGGING, Kind.NESTED_TAGGING, Kind.TRIPLES)


@dataclass(frozen=True, slots=True)
class Reject:
    """A problem found in a file, and what it cost."""

    file: str
    place: str
    reason: str
    detail: str
    lost: Literal["record", "entity", "nothing"]


class SplitRecords(NamedTuple):
    """Result of `read_split`."""

    records: list[Record]
    rejects: list[Reject]
    origin: str
    """File that was read, and how the split was made if the benchmark has none."""
