"""Precision, recall and F1 of answers, as CMedLMs' tables give them.

Tagging counts entities. Classes and labels are averaged with the number of their records as weight, so that recall with
one class per record is its accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tasks.downstream.records import Kind


class PrecisionRecall(NamedTuple):
    """Shares between 0 and 1."""

    precision: float
    recall: float
    f1: float


def precision_recall(kind: Kind, gold: Sequence[Any], answers: Sequence[Any]) -> PrecisionRecall:
    """Return the scores of some records' answers; what is divided by zero is 0.

    Raises:
        ValueError: tasks of this kind have no such scores.
    """
    if kind is Kind.TAGGING:
        return _of_counts(_counts([set(one) for one in gold], [set(one) for one in answers]))
    if kind not in (Kind.SINGLE, Kind.MULTI_LABEL):
        raise ValueError(f"a task of kind {kind} has no precision and recall")
    golds = [set(one) if kind is Kind.MULTI_LABEL else {one} for one in gold]
    found = [set(one) if kind is Kind.MULTI_LABEL else {one} for one in answers]
    labels = sorted(set().union(*golds))
    weights = {label: sum(label in one for one in golds) for label in labels}
    total = sum(weights.values())
    scores = {
        label: _of_counts(_counts([one & {label} for one in golds], [one & {label} for one in found]))
        for label in labels
    }
    means = (sum(weights[label] * scores[label][place] for label in labels) / max(1, total) for place in range(3))
    return PrecisionRecall(*means)


def _counts(gold: Sequence[set[Any]], found: Sequence[set[Any]]) -> tuple[int, int, int]:
    """Return the numbers of right, given and wanted answers."""
    right = sum(len(one & other) for one, other in zip(gold, found, strict=True))
    return right, sum(map(len, found)), sum(map(len, gold))


def _of_counts(counts: tuple[int, int, int]) -> PrecisionRecall:
    right, given, wanted = counts
    precision, recall = right / max(1, given), right / max(1, wanted)
    return PrecisionRecall(precision, recall, 2 * right / max(1, given + wanted))
