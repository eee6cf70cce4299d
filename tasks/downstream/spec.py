"""What the catalogue says about a task."""

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
    Kind.RANKING: "ranking",
    Kind.CHOICE: "choice",
    Kind.TAGGING: "tagging",
    Kind.NESTED_TAGGING: "two_stream",
    Kind.TRIPLES: "triples",
    Kind.NORMALISATION: "pair",  # a mention beside each candidate term (eHealth, appendix E)
}
"""The head of models/heads that answers in the shape of a kind."""


class Row(NamedTuple):
    """One example as its file has it, before anything is checked."""

    place: str
    """Where it stands, for a person: `line 7`, `record 7`."""
    fields: Mapping[str, Any]


Reader = Callable[[Path, "TaskSpec"], Iterator[Row]]
"""Yields the rows of a file, with entities, options and triples in the common form of
tasks/downstream/readers/assemble.py.
"""


def files(*patterns: str, dev: str = "dev") -> Mapping[Split, tuple[str, ...]]:
    """Return the file names of each split: `{}` in a pattern becomes train, `dev` or test."""
    words: Mapping[Split, str] = {"train": "train", "dev": dev, "test": "test"}
    return {split: tuple(pattern.format(word) for pattern in patterns) for split, word in words.items()}


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings that fine-tuning tries: every combination of the three."""

    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    epochs: tuple[int, ...]
    source: str
    """Where the ranges come from."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The names that a task's rows use."""

    texts: tuple[str, ...] = ("text",)
    answer: str = "label"
    record_id: str | None = None
    """None: records are numbered from 0."""
    group: str | None = None
    """What the candidates of one question share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One downstream task: its files, its answers, its metric and its fine-tuning settings."""

    name: str
    title: str
    """As the papers write it; also the folder that its files may lie in."""
    suites: tuple[str, ...]
    kind: Kind
    reader: Reader
    files: Mapping[Split, tuple[str, ...]]
    """Patterns of the official names, the likeliest first."""
    metric: str
    """A name of tasks/downstream/scoring.py; the score that the best run is chosen by."""
    max_length: int
    """Tokens of a sequence."""
    grid: Grid
    fields: Fields = Fields()
    labels: tuple[str, ...] | None = None
    """Classes, entity types or predicates, where the benchmark fixes them; None: those of the training file."""
    more_metrics: tuple[str, ...] = ()
    same_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the files write in another way, and what they are read as."""
    columns: tuple[str, ...] = ()
    """Of files without a header."""
    nested_types: tuple[str, ...] = ()
    """NESTED_TAGGING: the types of the first stream, whose entities others may lie in."""
    parquet: str | None = None
    """A file that holds all splits, told apart by its column `orig_split`."""
    submission: str | None = None
    """Name of the file that the benchmark takes."""
    sizes: tuple[int, int, int] | None = None
    """Examples in train, dev and test, by the papers."""
    note: str = ""

    @property
    def head(self) -> str:
        """The head of models/heads for this task."""
        return HEADS[self.kind]


@dataclass(frozen=True, slots=True)
class Reject:
    """Something in a file that is not as it should be, and what became of it."""

    file: str
    place: str
    reason: str
    detail: str
    lost: Literal["record", "entity", "nothing"]


class SplitRecords(NamedTuple):
    """What `read_split` gives."""

    records: list[Record]
    rejects: list[Reject]
    origin: str
    """The file, and how the split was made where the benchmark does not give it."""
