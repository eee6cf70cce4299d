"""Precision, recall and F1 equal scikit-learn's, and count entities in tagging."""

from __future__ import annotations

import random

import pytest
from sklearn.metrics import precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from tasks.downstream.records import Entity, Kind
from tasks.finetune.precision_recall import precision_recall


@pytest.mark.parametrize("seed", range(4))
def test_classes_are_weighted_as_scikit_learn_does(seed: int) -> None:
    draw = random.Random(seed)
    gold, found = (draw.choices("abcde"[:size], k=40) for size in (4, 5))
    wanted = precision_recall_fscore_support(gold, found, average="weighted", zero_division=0)[:3]
    assert precision_recall(Kind.SINGLE, gold, found) == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_weighted_as_scikit_learn_does(seed: int) -> None:
    draw = random.Random(seed)
    gold, found = ([tuple(draw.sample("abcd", draw.randint(0, 3))) for _ in range(30)] for _ in range(2))
    arrays = [MultiLabelBinarizer(classes=list("abcd")).fit_transform(one) for one in (gold, found)]
    wanted = precision_recall_fscore_support(*arrays, average="weighted", zero_division=0)[:3]
    assert precision_recall(Kind.MULTI_LABEL, gold, found) == pytest.approx(wanted)


def test_entities_are_counted_over_all_records() -> None:
    one, two, three = Entity(0, 2, "病"), Entity(3, 4, "病"), Entity(3, 4, "药")
    found = precision_recall(Kind.TAGGING, [(one, two), (), (one,)], [(one, three), (two,), ()])
    assert found == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert precision_recall(Kind.TAGGING, [()], [()]) == (0.0, 0.0, 0.0)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="a task of kind choice has no precision and recall"):
        precision_recall(Kind.CHOICE, [0], [0])
