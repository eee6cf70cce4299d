"""Scores of a normaliser on a split, and the rows of its tables `predictions`, `gold_ranks` and `scores`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.downstream.catalogue import task
from tasks.downstream.records import Record
from tasks.downstream.scoring import score
from tasks.finetune.trials.scores import score_row
from tasks.metrics.scores import recall_at_k
from tasks.normalise.normaliser import Retrieval
from tasks.normalise.params import TASK
from tasks.normalise.ranking.training import terms_of, texts_of
from tasks.retrieve.candidates import Candidate

RECALLS = (1, 10, 50, 100, 200)
"""Numbers of candidates at which recall is reported."""
SCORES = "scores.json"

_GROUPS: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("all", lambda count: True),
    ("1 term", lambda count: count == 1),
    ("2 terms", lambda count: count == 2),
    ("3 or more", lambda count: count > 2),
)
"""Groups of diagnoses by their number of correct terms."""

Recalled = Mapping[int, Sequence[Sequence[str]]]
"""For each of `RECALLS`, the terms of that many candidates of each diagnosis."""


@dataclass(frozen=True)
class AnsweredSplit:
    """A split with its answers."""

    name: str
    records: Sequence[Record]
    ordered: Sequence[Sequence[Candidate]]
    """Candidates of each diagnosis after ranking, best first."""
    answers: Sequence[Sequence[Candidate]]

    @property
    def terms(self) -> list[tuple[str, ...]]:
        """Terms of the answers to each diagnosis."""
        return [tuple(one.term for one in own) for own in self.answers]

    @property
    def is_labelled(self) -> bool:
        """True if the correct terms of all diagnoses are known."""
        return all(record.answer is not None for record in self.records)


def recalled(retrieval: Retrieval, records: Sequence[Record], found: Sequence[Sequence[Candidate]]) -> Recalled:
    """Return the terms of the first k candidates for each k of `RECALLS`.

    Args:
        found: the candidates that are ranked. They serve for every k up to their number; for a larger k candidates are
            retrieved again. Their beginning differs, since the number of places for siblings depends on k.
    """
    own = {k: found if k <= retrieval.k else retrieval.candidates(texts_of(records), k) for k in RECALLS}
    return {k: [[one.term for one in row] for row in rows] for k, rows in own.items()}


def figures_of(split: AnsweredSplit, recalled: Recalled) -> dict[str, Any]:
    """Return the recall of retrieval, overall and by number of correct terms, and the accuracy after ranking."""
    gold = [terms_of(record) for record in split.records]
    by_count = {label: [place for place, own in enumerate(gold) if test(len(own))] for label, test in _GROUPS}
    groups = {label: places for label, places in by_count.items() if places}
    first = [bool(one) and one[0].term in own for one, own in zip(split.ordered, gold, strict=True)]
    return {
        "recall": {
            label: {
                str(k): recall_at_k([gold[i] for i in places], [terms[i] for i in places], k)
                for k, terms in recalled.items()
            }
            for label, places in groups.items()
        },
        "diagnoses": {label: len(places) for label, places in groups.items()},
        "accuracy_at_1": sum(first) / len(first),
        "right_number_of_terms": sum(len(a) == len(g) for a, g in zip(split.answers, gold, strict=True)) / len(gold),
    }


def prediction_rows(split: AnsweredSplit) -> Iterator[dict[str, Any]]:
    """Yield a row of `predictions` per diagnosis."""
    for record, answer, one in zip(split.records, split.answers, split.ordered, strict=True):
        terms, gold = [each.term for each in answer], record.answer
        yield {
            "task": TASK,
            "split": split.name,
            "record_id": record.record_id,
            "group": None,
            "texts": list(record.texts),
            "answer": json.dumps(terms, ensure_ascii=False),
            "gold": None if gold is None else json.dumps(list(terms_of(record)), ensure_ascii=False),
            "correct": None if gold is None else set(terms_of(record)) == set(terms),
            "scores": [each.score for each in answer],
            "value": one[0].score if one else None,
        }


def rank_rows(split: AnsweredSplit) -> Iterator[dict[str, Any]]:
    """Yield a row of `gold_ranks` per correct term: its rank among the candidates, from 1, or None if it is missing."""
    for record, own in zip(split.records, split.ordered, strict=True):
        # A term with two codes is among the candidates twice: reversed, so that its first place is kept.
        places = {one.term: place for place, one in reversed(list(enumerate(own, start=1)))}
        for term in () if record.answer is None else terms_of(record):
            yield {"split": split.name, "record_id": record.record_id, "term": term, "rank": places.get(term)}


def split_score_rows(split: AnsweredSplit, figures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `scores` for a labelled split: the task's metrics with intervals, then those of `figures`."""
    scored = score(task(TASK), split.records, split.terms)
    for name, one in scored.scores.items():
        yield score_row(task(TASK), split.name, name, one.score, one.low, one.high)
    for k in RECALLS:
        yield score_row(task(TASK), split.name, f"recall_at_{k}", figures["recall"]["all"][str(k)])
    for name in ("accuracy_at_1", "right_number_of_terms"):
        yield score_row(task(TASK), split.name, name, figures[name])
