"""Counts that the metrics are computed from: one row per record, or per question of a ranking task.

Rows add up, so a score of any selection of records needs no second look at the answers
(tasks/metrics/significance.py). Collections count as sets: what occurs twice in a record counts once.

Time and memory grow with the answers; `tally_classes` also with the number of classes, `tally_orders` with the square
of a query's documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

_MEMBERS = {
    "entity": (("start", "start_idx"), ("end", "end_idx"), ("type",)),
    "triple": (("subject",), ("predicate",), ("object",)),
}
"""Fields of an entity and of a triple that must agree, each with the names it may have in a mapping."""


def tally_entities(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): entities that agree, predicted, gold."""
    return _tally_sets(*_records(gold, predicted), lambda one: _members(one, "entity"))


def tally_triples(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): triples that agree, predicted, gold."""
    return _tally_sets(*_records(gold, predicted), lambda one: _members(one, "triple"))


def tally_terms(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3): terms that agree, predicted, gold."""
    return _tally_sets([term_set(one) for one in gold], [term_set(one) for one in predicted], lambda term: term)


def tally_label_sets(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> np.ndarray:
    """float64 (records, 3): labels that agree, predicted, gold."""
    return _tally_sets(gold, predicted, lambda label: label)


def tally_by_label(gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]]) -> np.ndarray:
    """float64 (records, 3 C): for each label that occurs, those that agree (0 or 1), predicted, gold."""
    return _tally_by_name(*([{label: {label} for label in given} for given in side] for side in (gold, predicted)))


def tally_by_type(gold: Sequence[Any], predicted: Sequence[Any]) -> np.ndarray:
    """float64 (records, 3 C): for each type that occurs, entities that agree, predicted, gold."""
    return _tally_by_name(*([_by_type(given) for given in side] for side in _records(gold, predicted)))


def tally_right(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> np.ndarray:
    """float64 (records, 2): 1 if the label is right, else 0; and 1."""
    check_lengths(gold, predicted)
    right = [one == other for one, other in zip(gold, predicted, strict=True)]
    return np.column_stack([np.array(right, float).reshape(-1), np.ones(len(right))])


def tally_classes(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], classes: Sequence[Hashable] | None = None
) -> np.ndarray:
    """float64 (records, 3 C): for each class whether right, predicted, gold; `classes` by default all that occur."""
    check_lengths(gold, predicted)
    chosen = classes_of(gold, predicted) if classes is None else classes
    number = {label: place for place, label in enumerate(chosen)}
    tally = np.zeros((len(gold), len(number), 3))
    for row, (right, given) in enumerate(zip(gold, predicted, strict=True)):
        # A label outside the chosen classes counts for none of them, as with scikit-learn's `labels=`.
        if right in number:
            tally[row, number[right], 2] = 1
        if given in number:
            tally[row, number[given], 1] = 1
            tally[row, number[given], 0] = right == given
    return tally.reshape(len(gold), -1)


def tally_first(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): 1 if the best-scored candidate is right, else 0; and 1."""
    return _tally_questions(gold, scores, groups, lambda rank: float(rank == 1))


def tally_reciprocal_ranks(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): 1 / rank of the best right candidate; and 1."""
    return _tally_questions(gold, scores, groups, lambda rank: 1 / rank)


def tally_orders(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> np.ndarray:
    """float64 (questions, 2): pairs of documents in the right order and in the wrong one."""
    relevance = np.array([float(label) for label in gold])
    values = np.asarray(scores, float)
    rows = []
    for places in _places(gold, scores, groups):
        more = relevance[places, None] > relevance[None, places]
        higher = values[places, None] > values[None, places]
        # `~higher`, not "lower": equal scores do not rank one document over the other, so they count as wrong.
        rows.append(((more & higher).sum(), (more & ~higher).sum()))
    return np.array(rows, float).reshape(-1, 2)


def flatten_candidates(
    gold: Sequence[Any], scores: Sequence[Any], groups: Sequence[Hashable] | None
) -> tuple[Sequence[Any], Sequence[float], Sequence[Hashable]]:
    """Return one label, score and question per candidate.

    Without `groups`, gold and scores hold one list per question: `[["1", "0"], ["0"]]` becomes labels `["1", "0", "0"]`
    and questions `[0, 0, 1]`.
    """
    if groups is not None:
        return gold, scores, groups
    check_lengths(gold, scores)
    for labels, values in zip(gold, scores, strict=True):
        check_lengths(labels, values)
    numbers = [number for number, labels in enumerate(gold) for _ in labels]
    return [label for labels in gold for label in labels], [one for values in scores for one in values], numbers


def term_set(given: Any) -> set[str]:
    """Return the terms of a mention, given as a collection or as one string: `胃炎##肠炎` is two terms."""
    parts = given.split("##") if isinstance(given, str) else given
    return {term.strip() for term in parts if term.strip()}


def classes_of(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> list[Hashable]:
    """Return the labels that occur, in order of first occurrence."""
    return list(dict.fromkeys([*gold, *predicted]))


def check_lengths(*given: Sequence[Any]) -> None:
    """Raise ValueError if the sequences differ in length."""
    lengths = [len(one) for one in given]
    if len(set(lengths)) > 1:
        raise ValueError(f"gold and predicted differ in length: {' and '.join(map(str, lengths))}")


def _tally_sets(gold: Sequence[Any], predicted: Sequence[Any], key: Callable[[Any], Hashable]) -> np.ndarray:
    check_lengths(gold, predicted)
    tally = np.zeros((len(gold), 3))
    for row, (right, given) in enumerate(zip(gold, predicted, strict=True)):
        wanted, found = {key(one) for one in right}, {key(one) for one in given}
        tally[row] = len(wanted & found), len(found), len(wanted)
    return tally


def _tally_by_name(gold: Sequence[Mapping[str, set[Any]]], predicted: Sequence[Mapping[str, set[Any]]]) -> np.ndarray:
    check_lengths(gold, predicted)
    names = list(dict.fromkeys(name for given in (*gold, *predicted) for name in given))
    tally = np.zeros((len(gold), len(names), 3))
    for row, (right, given) in enumerate(zip(gold, predicted, strict=True)):
        for place, name in enumerate(names):
            wanted, found = right.get(name, set()), given.get(name, set())
            tally[row, place] = len(wanted & found), len(found), len(wanted)
    return tally.reshape(len(gold), -1)


def _by_type(entities: Any) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for entity in entities:
        members: Any = _members(entity, "entity")
        found.setdefault(str(members[2]), set()).add(members)
    return found


def _tally_questions(
    gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable], credit: Callable[[int], float]
) -> np.ndarray:
    right = np.array([str(label) in ("1", "1.0", "True") for label in gold], bool)
    values = np.asarray(scores, float)
    rows = []
    for places in _places(gold, scores, groups):
        good, bad = values[places][right[places]], values[places][~right[places]]
        # Only wrong candidates lower the rank: two right answers in front of the wrong ones are both first. `>=` puts a
        # wrong candidate before a right one of the same score, so a model that scores all alike wins no question.
        rows.append(credit(1 + int((bad >= good.max()).sum())) if good.size else 0.0)
    return np.column_stack([np.array(rows, float).reshape(-1), np.ones(len(rows))])


def _places(gold: Sequence[Any], scores: Sequence[float], groups: Sequence[Hashable]) -> list[np.ndarray]:
    """Candidates of each question, as indices, in the order in which questions first occur."""
    check_lengths(gold, scores, groups)
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    return [np.array(one) for one in places.values()]


def _records(gold: Sequence[Any], predicted: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """One collection per record; where either side is a flat list, each side is one record."""
    return ([gold], [predicted]) if _is_flat(gold) or _is_flat(predicted) else (gold, predicted)


def _is_flat(given: Sequence[Any]) -> bool:
    # Empty records show nothing: in [[], [(0, 2, "dis")]] the second one decides.
    first = next((one for one in given if not isinstance(one, Collection) or len(one)), ())
    if isinstance(first, tuple):
        # (0, 2, "dis") is an entity, ((0, 2, "dis"),) a record of one entity.
        return bool(first) and isinstance(first[0], int | str)
    return isinstance(first, Mapping) or not isinstance(first, Collection)


def _members(given: Any, kind: str) -> Hashable:
    """Fields of an entity or a triple that must agree."""
    if isinstance(given, tuple | list):
        return tuple(given)
    if isinstance(given, Mapping):
        found = (next(given[name] for name in names if name in given) for names in _MEMBERS[kind])
        # CMeIE wraps an object: {"@value": "阿莫西林"}.
        return tuple(part["@value"] if isinstance(part, Mapping) else part for part in found)
    return tuple(getattr(given, names[0]) for names in _MEMBERS[kind])
