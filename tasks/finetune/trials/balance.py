"""Weights of rare labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Entity, Kind, Record


def balanced_weights(shape: TaskShape, records: Sequence[Record]) -> list[float]:
    """Return a weight per output of the head, for `TaskModel.weigh_labels`.

    Of one label per record, n / (C count): all labels together count alike. Of several, (n - count) / count: where a
    label is given counts as much as where it is not. A label without records has the weight 1.

    Raises:
        ValueError: the task's answers are not labels.
    """
    if shape.kind not in (Kind.SINGLE, Kind.PAIR, Kind.RANKING, Kind.MULTI_LABEL):
        raise ValueError(f"a task of kind {shape.kind} has no labels of records to weigh")
    labels = ("0", "1") if shape.kind is Kind.RANKING else shape.labels
    counts = Counter(label for record in records for label in _labels(record))
    if shape.kind is Kind.MULTI_LABEL:
        return [(len(records) - counts[one]) / counts[one] if 0 < counts[one] < len(records) else 1.0 for one in labels]
    seen = sum(counts[one] > 0 for one in labels)
    return [len(records) / (seen * counts[one]) if counts[one] else 1.0 for one in labels]


def _labels(record: Record) -> list[str]:
    answer = record.answer
    if isinstance(answer, tuple):
        return [one.type if isinstance(one, Entity) else str(one) for one in answer]
    return [] if answer is None else [str(answer)]
