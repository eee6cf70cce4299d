"""Labelled sentences beside this module (deidentify_labelled.jsonl and others), and scores of what is found in them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LABELLED = Path(__file__).parent / "deidentify_labelled.jsonl"
_MARK = re.compile(r"\{(\w+):([^{}]*)\}")

Span = tuple[int, int, str]
"""Start, end and type."""


class Sentence(NamedTuple):
    """A sentence with its identifiers."""

    text: str
    spans: frozenset[Span]


def read_sentences(path: Path = LABELLED) -> list[Sentence]:
    """Read all sentences in order; the first line of the file describes it."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [read_marked(row["marked"]) for row in rows]


def read_marked(marked: str) -> Sentence:
    """Return the text of `患者{name:王伟}` with its spans."""
    text, end, spans = "", 0, set()
    for mark in _MARK.finditer(marked):
        text += marked[end : mark.start()]
        spans.add((len(text), len(text) + len(mark[2]), mark[1]))
        text, end = text + mark[2], mark.end()
    return Sentence(text + marked[end:], frozenset(spans))


class Score(NamedTuple):
    """Counts of identifiers, with precision and recall."""

    right: int
    found: int
    labelled: int

    @property
    def precision(self) -> float:
        """Share of the found identifiers that are right; 1 where none was found."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Share of the labelled identifiers that were found; 1 where none is labelled."""
        return self.right / self.labelled if self.labelled else 1.0


def score(
    sentences: Sequence[Sentence], find: Callable[[str], Iterable[tuple[Any, ...]]], characters: bool = False
) -> dict[str, Score]:
    """Return the scores by type, and of "all": over exact spans with their type, or over characters with their type."""
    counts = {name: Counter[str]() for name in ("right", "found", "labelled")}
    for text, spans in sentences:
        labelled, found = set(spans), {(start, end, kind) for start, end, kind, *_ in find(text)}
        if characters:
            labelled, found = _characters(labelled), _characters(found)
        for name, items in (("right", labelled & found), ("found", found), ("labelled", labelled)):
            for _, _, kind in items:
                counts[name].update((kind, "all"))
    return {kind: Score(*(counts[name][kind] for name in counts)) for kind in sorted(set().union(*counts.values()))}


def _characters(spans: set[Span]) -> set[Span]:
    return {(at, at + 1, kind) for start, end, kind in spans for at in range(start, end)}
