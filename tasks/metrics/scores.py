"""The benchmarks' metrics, each a formula over counts that add up over records or questions.

| function | gold, predicted | result |
|---|---|---|
| entity_f1 | a collection of entities per record | {"precision", "recall", "f1"} |
| triple_f1 | a collection of triples per record | the same |
| normalisation_f1 | a collection of terms per record, or `term##term` | the same |
| multi_label_f1 | a collection of labels per record | the same |
| accuracy, micro_f1, macro_f1, positive_f1 | a label per record | float |
| precision_at_1, mrr, pair_score | a label and a score per candidate, and its question | float |
| recall_at_k | a collection of terms and a ranked list of candidates per record | float |

Collections count as sets: what occurs twice in a record counts once. Micro-averages pool all records; 0 / 0 is 0, as in
scikit-learn with `zero_division=0`. Scores are fractions of 1.

Each metric is also a `Metric` in `METRICS`: `tally` returns one row of counts per record or question
(tasks/metrics/tallies.py), and `value` turns the sum of rows into the score.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tasks.metrics.tallies import (
    check_lengths,
    classes_of,
    flatten_candidates,
    tally_by_label,
    tally_by_type,
    tally_classes,
    tally_entities,
    tally_first,
    tally_label_sets,
    tally_orders,
    tally_reciprocal_ranks,
    tally_right,
    tally_terms,
    tally_triples,
    term_set,
)

Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class Metric:
    """A score, split into counts per unit and a formula over their sum."""

    tally: Callable[..., np.ndarray]
    """(gold, predicted) or (gold, scores, groups) to float64 (units, S); a unit is a record or a question."""
    value: Callable[[np.ndarray], np.ndarray]
    """Sums of rows, float64 (…, S), to scores (…)."""


def entity_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
    """Micro-F1 over entities that agree in start, end and type (CMeEE and every other recognition task).

    An entity is an `Entity`, a tuple (start, end, type), or a mapping with `start` and `end` or CMeEE's `start_idx` and
    `end_idx`. Both sides must count ends in the same way. A flat list of entities is one record.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return _precision_recall_f1(tally_entities(gold, predicted))


def triple_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
    """Micro-F1 over triples that agree in subject, predicate and object (CMeIE).

    A triple is a `Triple`, whose types do not count, a mapping in CMeIE's form, or a tuple, all of which counts.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return _precision_recall_f1(tally_triples(gold, predicted))


def normalisation_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
    """Micro-F1 over pairs of a mention and a standard term (CHIP-CDN).

    The terms of a mention are a collection, or one string with `##` between them.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return _precision_recall_f1(tally_terms(gold, predicted))


def multi_label_f1(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> Scores:
    """Micro-F1 over pairs of a record and a label.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return _precision_recall_f1(tally_label_sets(gold, predicted))


def accuracy(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """Share of records whose label is right.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return float(ratio(tally_right(gold, predicted).sum(0)))


def micro_f1(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] | None = None
) -> float:
    """F1 of the pooled counts of some classes; over all classes it equals the accuracy.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    chosen = classes_of(gold, predicted) if labels is None else list(labels)
    return float(pooled_f1(tally_classes(gold, predicted, chosen).sum(0)))


def macro_f1(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] | None = None
) -> float:
    """Mean F1 (CHIP-CTC, CHIP-STS) of all classes that occur in gold or predicted, or of `labels`.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    if labels is None:
        return float(mean_f1(tally_classes(gold, predicted).sum(0)))
    # Labels that the caller names count even where they never occur: their F1 is 0, as in scikit-learn.
    counts = _by_class(tally_classes(gold, predicted, list(labels)).sum(0))
    return float(_f1(counts).mean()) if counts.size else 0.0


def positive_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable], positive: Hashable = "1") -> float:
    """F1 of one class, "1" for the pairs of ChineseBLUE and ELECTRA+EM+PAP.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return micro_f1(gold, predicted, [positive])


def precision_at_1(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """Share of questions whose best-scored candidate is right (webMedQA's P@1, ACC@1 of EMBERT and SMedBERT).

    Args:
        gold: label of each candidate, right if it is 1, "1" or True.
        scores: score of each candidate, higher is better. Of equal scores the wrong candidate comes first: a tie is
            never won.
        groups: question of each candidate; None: gold and scores hold one list per question.

    Raises:
        ValueError: the three differ in length.
    """
    return float(ratio(tally_first(*flatten_candidates(gold, scores, groups)).sum(0)))


def mrr(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """Mean over questions of 1 / rank of the best right candidate, 0 where none is right; see precision_at_1."""
    return float(ratio(tally_reciprocal_ranks(*flatten_candidates(gold, scores, groups)).sum(0)))


def pair_score(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """Number of a query's document pairs in the right order, divided by those in the wrong order (cMedIR's PAIR score).

    Pairs of equal relevance are left out; equal scores are a wrong order. Infinite if no order is wrong, 0 if there are
    no pairs. Time and memory grow with the square of a query's documents.

    Args:
        gold: relevance of each document, a number or its digits.
        scores: see precision_at_1.
        groups: see precision_at_1.
    """
    return float(odds(tally_orders(*flatten_candidates(gold, scores, groups)).sum(0)))


def recall_at_k(gold: Sequence[Any], ranked: Sequence[Sequence[str]], k: int) -> float:
    """Share of all standard terms that are among the first k candidates of their mention.

    Raises:
        ValueError: gold and ranked differ in length, or k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    check_lengths(gold, ranked)
    hits = total = 0
    for terms, candidates in zip(gold, ranked, strict=True):
        wanted = term_set(terms)
        hits += len(wanted & set(candidates[:k]))
        total += len(wanted)
    return hits / total if total else 0.0


def f1_of_sets(sums: np.ndarray) -> np.ndarray:
    """F1 of (agreeing, predicted, gold), float64 (…, 3) to (…)."""
    return _f1(np.asarray(sums, float))


def ratio(sums: np.ndarray) -> np.ndarray:
    """First count divided by the second, float64 (…, 2) to (…)."""
    return _divide(sums[..., 0], sums[..., 1])


def odds(sums: np.ndarray) -> np.ndarray:
    """First count divided by the second, float64 (…, 2) to (…); infinite where only the second is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., 0] > 0, sums[..., 0] / sums[..., 1], 0.0)


def pooled_f1(sums: np.ndarray) -> np.ndarray:
    """F1 of the classes' pooled counts, float64 (…, 3 C) to (…)."""
    return _f1(_by_class(sums).sum(-2))


def mean_f1(sums: np.ndarray) -> np.ndarray:
    """Mean F1 of the classes that occur, float64 (…, 3 C) to (…)."""
    counts = _by_class(sums)
    # A bootstrap resample may miss a rare class altogether; it then leaves the mean instead of counting as 0.
    occurs = counts[..., 1] + counts[..., 2] > 0
    return _divide((_f1(counts) * occurs).sum(-1), occurs.sum(-1))


METRICS: Mapping[str, Metric] = {
    "entity_f1": Metric(tally_entities, f1_of_sets),
    "triple_f1": Metric(tally_triples, f1_of_sets),
    "normalisation_f1": Metric(tally_terms, f1_of_sets),
    "multi_label_f1": Metric(tally_label_sets, f1_of_sets),
    "macro_label_f1": Metric(tally_by_label, mean_f1),
    "macro_entity_f1": Metric(tally_by_type, mean_f1),
    "accuracy": Metric(tally_right, ratio),
    "micro_f1": Metric(tally_right, ratio),
    "macro_f1": Metric(tally_classes, mean_f1),
    "positive_f1": Metric(partial(tally_classes, classes=["1"]), pooled_f1),
    "intent_f1": Metric(partial(tally_classes, classes=["1", "2"]), pooled_f1),
    "precision_at_1": Metric(tally_first, ratio),
    "mrr": Metric(tally_reciprocal_ranks, ratio),
    "pair_score": Metric(tally_orders, odds),
}
"""Metrics by the names that the catalogue uses. macro_label_f1 and macro_entity_f1 are means of the labels' and of the
types' F1, where multi_label_f1 and entity_f1 pool them. intent_f1 is cMedIC's: micro-F1 over weak and firm intention.
"""

RANKING_METRICS = frozenset({"precision_at_1", "mrr", "pair_score"})
"""Metrics that compare the scores of a question's candidates."""


def _precision_recall_f1(tally: np.ndarray) -> Scores:
    sums = tally.sum(0)
    return {
        "precision": float(_divide(sums[0], sums[1])),
        "recall": float(_divide(sums[0], sums[2])),
        "f1": float(_f1(sums)),
    }


def _f1(counts: np.ndarray) -> np.ndarray:
    """2 · agreeing / (predicted + gold), float64 (…, 3) to (…)."""
    return _divide(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient, 0 where the divisor is 0."""
    above, below = np.asarray(above, float), np.asarray(below, float)
    return np.divide(above, below, out=np.zeros_like(below), where=below != 0)


def _by_class(sums: np.ndarray) -> np.ndarray:
    return sums.reshape(*sums.shape[:-1], -1, 3)
