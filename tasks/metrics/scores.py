"""The benchmarks' metrics, each a value of counts that add up over records or questions.

| function | gold, predicted | result |
|---|---|---|
| entity_f1 | a collection of entities a record | {"precision", "recall", "f1"} |
| triple_f1 | a collection of triples a record | the same |
| normalisation_f1 | a collection of terms a record, or `term##term` | the same |
| multi_label_f1 | a collection of labels a record | the same |
| accuracy, micro_f1, macro_f1, positive_f1 | a label a record | float |
| precision_at_1, mrr, pair_score | a label and a score a candidate, the question of each | float |
| recall_at_k | a collection of terms and a ranked list of candidates a record | float |

Collections count as sets: what stands twice in a record counts once. Micro-averages pool all records; 0 / 0 is 0, as
scikit-learn has it with `zero_division=0`. Scores are fractions of 1.

Each metric is a `Metric`: `tally` gives one row of counts for each record (or question), `value` turns their sum into
the score. So a resampled score needs no second look at the answers (tasks/metrics/significance.py). Time and memory
grow with the answers; macro_f1's counts also with the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Scores = dict[str, float]

_MEMBERS = {
    "entity": (("start", "start_idx"), ("end", "end_idx"), ("type",)),
    "triple": (("subject",), ("predicate",), ("object",)),
}
"""The parts of an entity and of a triple that have to agree, by the names they may have in a mapping."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A score as counts and a value."""

    tally: Callable[..., np.ndarray]
    """(gold, predicted) or (gold, scores, groups) to float64 (units, S); a unit is a record or a question."""
    value: Callable[[np.ndarray], np.ndarray]
    """Sums of rows, float64 (…, S), to scores (…)."""


def entity_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
    """Micro-F1 over entities that agree in start, end and type (CMeEE and every other recognition task).

    An entity is an `Entity`, a tuple (start, end, type), or a mapping with `start` and `end` or CMeEE's `start_idx` and
    `end_idx`; both sides count ends alike. A flat list of entities is one record.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return _precision_recall_f1(tally_entities(gold, predicted))


def triple_f1(gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
    """Micro-F1 over triples that agree in subject, predicate and object (CMeIE).

    A triple is a `Triple`, whose types do not count, a mapping as CMeIE has it, or a tuple, all of which counts.

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
    """The share of records whose label is right.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return float(ratio(tally_right(gold, predicted).sum(0)))


def micro_f1(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] | None = None
) -> float:
    """F1 of the pooled counts of some classes; of all classes it is the accuracy.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    chosen = _classes(gold, predicted) if labels is None else list(labels)
    return float(pooled_f1(tally_classes(gold, predicted, chosen).sum(0)))


def macro_f1(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], labels: Iterable[Hashable] | None = None
) -> float:
    """The mean of the classes' F1 (CHIP-CTC, CHIP-STS): of all classes that stand in gold or predicted, or of `labels`.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    if labels is None:
        return float(mean_f1(tally_classes(gold, predicted).sum(0)))
    counts = _by_class(tally_classes(gold, predicted, list(labels)).sum(0))
    return float(_f1(counts).mean()) if counts.size else 0.0


def positive_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable], positive: Hashable = "1") -> float:
    """F1 of one class, "1" for the pairs of ChineseBLUE and ELECTRA+EM+PAP.

    Raises:
        ValueError: gold and predicted differ in length.
    """
    return micro_f1(gold, predicted, [positive])


def precision_at_1(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """The share of questions whose best-scored candidate is right (webMedQA's P@1, ACC@1 of EMBERT and SMedBERT).

    Args:
        gold: label of each candidate, right if it is 1, "1" or True.
        scores: score of each candidate, higher is better; of equal scores the wrong one comes first: no tie is won.
        groups: question of each candidate; None: gold and scores hold a list for each question.

    Raises:
        ValueError: the three differ in length.
    """
    return float(ratio(tally_first(*_flat(gold, scores, groups)).sum(0)))


def mrr(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """Mean over questions of 1 / rank of the best right candidate, 0 where none is right; see precision_at_1."""
    return float(ratio(tally_reciprocal_ranks(*_flat(gold, scores, groups)).sum(0)))


def pair_score(gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None = None) -> float:
    """Pairs of a query's documents in the right order by pairs in the wrong one (cMedIR's PAIR score).

    Pairs of equal relevance are left out; equal scores are a wrong order. Infinite where no order is wrong; 0 where
    there is no pair. Time and memory grow with the square of a query's documents.

    Args:
        gold: relevance of each document, a number or its digits.
        scores: see precision_at_1.
        groups: see precision_at_1.
    """
    return float(odds(tally_orders(*_flat(gold, scores, groups)).sum(0)))


def recall_at_k(gold: Sequence[Any], ranked: Sequence[Sequence[str]], k: int) -> float:
    """The share of all standard terms that stand among the first k candidates of their mention.

    Raises:
        ValueError: gold and ranked differ in length, or k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k has to be 1 or more, not {k}")
    _same_length(gold, ranked)
    hits = total = 0
    for terms, candidates in zip(gold, ranked, strict=True):
        wanted = _terms(terms)
        hits += len(wanted & set(candidates[:k]))
        total += len(wanted)
    return hits / total if total else 0.0


def tally_entities(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): entities that agree, predicted, gold."""
    return _tally_sets(*_records(gold, predicted), lambda one: _members(one, "entity"))


def tally_triples(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): triples that agree, predicted, gold."""
    return _tally_sets(*_records(gold, predicted), lambda one: _members(one, "triple"))


def tally_terms(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): terms that agree, predicted, gold."""
    return _tally_sets([_terms(one) for one in gold], [_terms(one) for one in predicted], lambda term: term)


def tally_label_sets(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> np.ndarray:
    """float64 (records, 3): labels that agree, predicted, gold."""
    return _tally_sets(gold, predicted, lambda label: label)


def _tally_sets(gold: Sequence[Any], predicted: Sequence[Any], key: Callable[[Any], Hashable]) -> np.ndarray:
    _same_length(gold, predicted)
    tally = np.zeros((len(gold), 3))
    for row, (right, given) in enumerate(zip(gold, predicted, strict=True)):
        wanted, found = {key(one) for one in right}, {key(one) for one in given}
        tally[row] = len(wanted & found), len(found), len(wanted)
    return tally


def tally_right(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> np.ndarray:
    """float64 (records, 2): right or not, and 1."""
    _same_length(gold, predicted)
    right = [one == other for one, other in zip(gold, predicted, strict=True)]
    return np.column_stack([np.array(right, float).reshape(-1), np.ones(len(right))])


def tally_classes(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], classes: Sequence[Hashable] | None = None
) -> np.ndarray:
    """float64 (records, 3 C): for each class whether right, predicted, gold; `classes` by default all that occur."""
    _same_length(gold, predicted)
    chosen = _classes(gold, predicted) if classes is None else classes
    number = {label: place for place, label in enumerate(chosen)}
    tally = np.zeros((len(gold), len(number), 3))
    for row, (right, given) in enumerate(zip(gold, predicted, strict=True)):
        if right in number:
            tally[row, number[right], 2] = 1
        if given in number:
            tally[row, number[given], 1] = 1
            tally[row, number[given], 0] = right == given
    return tally.reshape(len(gold), -1)


def tally_first(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): whether the best candidate is right, and 1."""
    return _tally_questions(gold, scores, groups, lambda rank: float(rank == 1))


def tally_reciprocal_ranks(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): 1 / rank of the best right candidate, and 1."""
    return _tally_questions(gold, scores, groups, lambda rank: 1 / rank)


def tally_orders(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): pairs in the right order and in the wrong one."""
    relevance = np.array([float(label) for label in gold])
    values = np.asarray(scores, float)
    rows = []
    for places in _places(gold, scores, groups):
        more = relevance[places, None] > relevance[None, places]
        higher = values[places, None] > values[None, places]
        rows.append(((more & higher).sum(), (more & ~higher).sum()))
    return np.array(rows, float).reshape(-1, 2)


def _tally_questions(
    gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable], credit: Callable[[int], float]
) -> np.ndarray:
    right = np.array([str(label) in ("1", "1.0", "True") for label in gold], bool)
    values = np.asarray(scores, float)
    rows = []
    for places in _places(gold, scores, groups):
        good, bad = values[places][right[places]], values[places][~right[places]]
        # Right candidates do not push each other down: the best one's rank counts.
        rows.append(credit(1 + int((bad >= good.max()).sum())) if good.size else 0.0)
    return np.column_stack([np.array(rows, float).reshape(-1), np.ones(len(rows))])


def f1_of_sets(sums: np.ndarray) -> np.ndarray:
    """F1 of (agreeing, predicted, gold), float64 (…, 3) to (…)."""
    return _f1(np.asarray(sums, float))


def ratio(sums: np.ndarray) -> np.ndarray:
    """First count by second, float64 (…, 2) to (…)."""
    return _divide(sums[..., 0], sums[..., 1])


def odds(sums: np.ndarray) -> np.ndarray:
    """First count by second, infinite where only the second is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., 0] > 0, sums[..., 0] / sums[..., 1], 0.0)


def pooled_f1(sums: np.ndarray) -> np.ndarray:
    """F1 of the classes' pooled counts, float64 (…, 3 C) to (…)."""
    return _f1(_by_class(sums).sum(-2))


def mean_f1(sums: np.ndarray) -> np.ndarray:
    """Mean F1 of the classes that occur, float64 (…, 3 C) to (…)."""
    counts = _by_class(sums)
    occurs = counts[..., 1] + counts[..., 2] > 0
    return _divide((_f1(counts) * occurs).sum(-1), occurs.sum(-1))


METRICS: Mapping[str, Metric] = {
    "entity_f1": Metric(tally_entities, f1_of_sets),
    "triple_f1": Metric(tally_triples, f1_of_sets),
    "normalisation_f1": Metric(tally_terms, f1_of_sets),
    "multi_label_f1": Metric(tally_label_sets, f1_of_sets),
    "accuracy": Metric(tally_right, ratio),
    "micro_f1": Metric(tally_right, ratio),
    "macro_f1": Metric(tally_classes, mean_f1),
    "positive_f1": Metric(lambda gold, predicted: tally_classes(gold, predicted, ["1"]), pooled_f1),
    "intent_f1": Metric(lambda gold, predicted: tally_classes(gold, predicted, ["1", "2"]), pooled_f1),
    "precision_at_1": Metric(tally_first, ratio),
    "mrr": Metric(tally_reciprocal_ranks, ratio),
    "pair_score": Metric(tally_orders, odds),
}
"""By the names that the catalogue uses; intent_f1 is cMedIC's, micro over weak and firm intention."""

RANKING_METRICS = frozenset({"precision_at_1", "mrr", "pair_score"})
"""Those that compare scores of candidates by question."""


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
    above, below = np.asarray(above, float), np.asarray(below, float)
    return np.divide(above, below, out=np.zeros_like(below), where=below != 0)


def _by_class(sums: np.ndarray) -> np.ndarray:
    return sums.reshape(*sums.shape[:-1], -1, 3)


def _classes(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> list[Hashable]:
    return list(dict.fromkeys([*gold, *predicted]))


def _same_length(*given: Sequence[Any]) -> None:
    lengths = [len(one) for one in given]
    if len(set(lengths)) > 1:
        raise ValueError(f"gold and predicted differ in length: {' and '.join(map(str, lengths))}")


def _records(gold: Sequence[Any], predicted: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Collections a record; where either side is a flat list, both are one record."""
    return ([gold], [predicted]) if _is_flat(gold) or _is_flat(predicted) else (gold, predicted)


def _is_flat(given: Sequence[Any]) -> bool:
    first = next((one for one in given if not isinstance(one, Collection) or len(one)), ())
    if isinstance(first, tuple):
        return bool(first) and isinstance(first[0], int | str)
    return isinstance(first, Mapping) or not isinstance(first, Collection)


def _members(given: Any, kind: str) -> Hashable:
    """What of an entity or a triple has to agree."""
    if isinstance(given, tuple | list):
        return tuple(given)
    if isinstance(given, Mapping):
        found = (next(given[name] for name in names if name in given) for names in _MEMBERS[kind])
        return tuple(part["@value"] if isinstance(part, Mapping) else part for part in found)
    return tuple(getattr(given, names[0]) for names in _MEMBERS[kind])


def _terms(given: Any) -> set[str]:
    parts = given.split("##") if isinstance(given, str) else given
    return {term.strip() for term in parts if term.strip()}


def _flat(
    gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None
) -> tuple[Sequence[Any], Sequence[float], Sequence[Hashable]]:
    """One entry a candidate, whatever the form."""
    if groups is not None:
        return gold, scores, groups
    _same_length(gold, scores)
    for labels, values in zip(gold, scores, strict=True):
        _same_length(labels, values)
    numbers = [number for number, labels in enumerate(gold) for _ in labels]
    return [label for labels in gold for label in labels], [one for values in scores for one in values], numbers


def _places(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> list[np.ndarray]:
    """The candidates of each question, in the order that questions first occur."""
    _same_length(gold, scores, groups)
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    return [np.array(one) for one in places.values()]
