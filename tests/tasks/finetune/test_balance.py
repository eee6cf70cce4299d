"""Weights of labels, and the learning rates of small encoders."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from models import heads
from models.heads.examples import HeadExample
from tasks.downstream.catalogue.grids import own_rates
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Kind, Record
from tasks.finetune.trials.balance import balanced_weights
from tests.support.heads.tiny_heads import SIZES, make_sequence


def records(labels: list[str]) -> list[Record]:
    return [Record(str(number), (f"文本{number}",), label) for number, label in enumerate(labels)]


def test_balanced_weights_let_all_labels_together_count_alike() -> None:
    given_records = records(["甲"] * 90 + ["乙"] * 9 + ["丙"])
    shape = TaskShape(task="classify", kind=Kind.SINGLE, head="single", max_length=8, labels=("丙", "乙", "甲", "丁"))
    weights = dict(zip(shape.labels, balanced_weights(shape, given_records), strict=True))
    counts = Counter(str(record.answer) for record in given_records)
    assert {label: round(weights[label] * counts[label], 9) for label in counts} == dict.fromkeys(counts, 33.333333333)
    assert weights["丁"] == 1.0


def test_weights_of_several_labels_balance_given_and_not_given() -> None:
    several = [Record(str(n), ("文",), ("甲", "乙") if n < 20 else ("甲",)) for n in range(100)]
    shape = TaskShape(task="labels", kind=Kind.MULTI_LABEL, head="multi_label", max_length=8, labels=("甲", "乙"))
    assert balanced_weights(shape, several) == [1.0, 4.0]
    tags = shape.model_copy(update={"kind": Kind.TAGGING})
    with pytest.raises(ValueError, match="has no labels of records to weigh"):
        balanced_weights(tags, several)


@pytest.mark.parametrize("name", ["single", "multi_label"])
def test_weighted_losses_are_those_of_the_formula(name: str) -> None:
    rng = np.random.default_rng(0)
    model = heads.build(name, dict(SIZES), num_labels=3, seed=1, dropout=0.0)
    targets = [0, 2, 1, 0] if name == "single" else [rng.integers(0, 2, 3).astype(np.float32) for _ in range(4)]
    batch = model.collate([HeadExample((make_sequence(rng, 6),), target) for target in targets])
    weights = torch.tensor([0.5, 2.0, 3.0])
    model.weigh_labels(weights.tolist())
    logits = model.logits(batch).detach()
    if name == "single":
        costs = -F.log_softmax(logits, 1)[range(4), targets] * weights[targets]
        expected = costs.sum() / weights[targets].sum()
    else:
        gold = torch.tensor(np.stack(targets))
        chances = torch.sigmoid(logits)
        expected = -(weights * gold * chances.log() + (1 - gold) * (1 - chances).log()).mean()
    assert float(model(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)
    assert "label_weights" not in model.state_dict() and "label_weights" not in model.config()
    with pytest.raises(ValueError, match="3 labels need as many positive weights"):
        model.weigh_labels([1.0, 2.0])


def test_heads_without_labels_refuse_weights() -> None:
    with pytest.raises(ValueError, match="head 'tagging' has no weights of labels"):
        heads.build("tagging", dict(SIZES), num_labels=5, seed=1).weigh_labels([1.0])


@pytest.mark.parametrize(("hidden_size", "middle"), [(None, 6e-5), (768, 6e-5), (385, 6e-5), (384, 3e-4), (128, 1e-3)])
def test_small_encoders_get_higher_rates(hidden_size: int | None, middle: float) -> None:
    rates = own_rates(hidden_size)
    assert rates == tuple(sorted(rates)) and rates[1] == middle
