"""Weights of rare labels, and parts of the training records in which all labels have their share."""

from __future__ import annotations

import hashlib
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


def nested_order(records: Sequence[Record]) -> list[int]:
    """Return the numbers of records in an order whose every beginning has about its share of each label.

    The first 100 are among the first 300. The candidates of a question follow each other. The order depends on the
    texts alone, so it is the same for every seed and setting. Time grows with n log n.
    """
    counts = Counter(label for record in records for label in set(_labels(record)))
    together: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        key = record.group if record.group is not None else f"{number}\0{record.record_id}"
        together.setdefault(key, []).append(number)
    strata: dict[str, list[list[int]]] = {}
    for numbers in together.values():
        labels = {label for number in numbers for label in _labels(records[number])}
        strata.setdefault(min(labels, key=lambda one: (counts[one], one), default=""), []).append(numbers)
    placed = []
    for name, units in strata.items():
        units.sort(key=lambda unit: _hash(records[unit[0]]))
        # The k-th of m lies at (k + 1/2) / m of the line, so half of the line has half of each stratum.
        placed += [((place + 0.5) / len(units), name, unit) for place, unit in enumerate(units)]
    return [number for _, _, unit in sorted(placed) for number in unit]


def _labels(record: Record) -> list[str]:
    answer = record.answer
    if isinstance(answer, tuple):
        return [one.type if isinstance(one, Entity) else str(one) for one in answer]
    return [] if answer is None else [str(answer)]


def _hash(record: Record) -> bytes:
    content = "\0".join((record.record_id, *record.texts))
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
