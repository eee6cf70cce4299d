"""Product attribute prediction: Equations 2 and 3 pair by pair, the draws of values, and the reported ranking."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.objectives.electra_em_pap.attributes import (
    AttributeHead,
    attribute_loss,
    distances,
    farther_negatives,
)
from models.objectives.electra_em_pap.pairs import Drawing, PairBatch, collate_pairs
from models.objectives.electra_em_pap.values import ProductValues, others_of
from tests.support.training.products import product_rows, product_values

DRAWING = Drawing(most_values=3, negatives=2)


def collated(numbers: list[int], seed: int = 5, step: int = 9, drawing: Drawing = DRAWING) -> PairBatch:
    """A batch of some of the rows, under their numbers among all rows."""
    rows = product_rows()
    chosen = [rows[number] for number in numbers]
    return collate_pairs(chosen, product_values(), seed=seed, step=step, row_indices=numbers, drawing=drawing)


def sequences(batch: PairBatch) -> list[Tensor]:
    return list(batch.input_ids.split(batch.layout.lengths))


def values_of(batch: PairBatch, pair: int, positive: bool) -> list[tuple[int, ...]]:
    """Token ids of the values that a pair is compared with."""
    chosen = (batch.value_pairs == pair) & (batch.is_positive == positive)
    return [tuple(sequences(batch)[number].tolist()) for number in batch.value_sequences[chosen].tolist()]


def test_each_pair_is_encoded_once_and_its_values_beside_it() -> None:
    rows, values = product_rows(), product_values()
    batch = collated(list(range(len(rows))))
    assert len(batch.pair_sequences) == len(rows)
    assert batch.sequences == len(rows) + len(batch.value_sequences)
    assert batch.positives == sum(min(3, len(row["values"])) for row in rows) == int(batch.is_positive.sum())
    for pair, row in enumerate(rows):
        number = int(batch.pair_sequences[pair])
        assert sequences(batch)[number].tolist() == list(row["input_ids"])
        types = batch.type_ids.split(batch.layout.lengths)[number].tolist()
        assert types == [0] * row["second"] + [1] * (len(row["input_ids"]) - row["second"])
        own = {tuple(values.tokens(value).tolist()) for value in row["values"]}
        shown, others = values_of(batch, pair, True), values_of(batch, pair, False)
        assert set(shown) <= own and not set(others) & own
        assert len(others) == 2 * len(shown) == len(set(others))
    assert all(not types.any() for types in _types_of_values(batch))


def _types_of_values(batch: PairBatch) -> list[Tensor]:
    split = batch.type_ids.split(batch.layout.lengths)
    return [split[number] for number in batch.value_sequences.tolist()]


def test_a_row_draws_the_same_values_whichever_rows_share_its_batch() -> None:
    whole, part = collated([0, 1, 2, 3, 4, 5]), collated([5, 2])
    for place, number in ((1, 2), (0, 5)):
        for positive in (True, False):
            assert values_of(part, place, positive) == values_of(whole, number, positive)
    assert values_of(collated([0], step=10), 0, False) != values_of(whole, 0, False)


SHARED = Drawing(most_values=3, negatives=2, by_frequency=0.5, shared=4)


def test_shared_negatives_are_one_draw_per_attribute_that_every_batch_repeats() -> None:
    rows, values = product_rows(9), product_values()
    whole = collate_pairs(rows, values, seed=5, step=9, row_indices=range(9), drawing=SHARED)
    pools = [
        {value for pair in range(attribute, 9, 3) for value in values_of(whole, pair, False)} for attribute in range(3)
    ]
    for pair, row in enumerate(rows):
        own = {tuple(values.tokens(value).tolist()) for value in row["values"]}
        others = values_of(whole, pair, False)
        assert others and not set(others) & own
        assert set(others) == pools[row["attribute"]] - own
    assert max(map(len, pools)) == 4
    part = collate_pairs(rows[4:6], values, seed=5, step=9, row_indices=[4, 5], drawing=SHARED)
    for place, number in ((0, 4), (1, 5)):
        for positive in (True, False):
            assert values_of(part, place, positive) == values_of(whole, number, positive)
    later = collate_pairs(rows, values, seed=5, step=10, row_indices=range(9), drawing=SHARED)
    assert values_of(later, 0, False) != values_of(whole, 0, False)


def test_a_shared_value_is_encoded_once_under_a_name_of_its_own() -> None:
    """The name seeds dropout: a value must have the same noise in every batch, and none a pair's."""
    batch = collate_pairs(product_rows(9), product_values(), seed=5, step=9, row_indices=range(9), drawing=SHARED)
    texts = [tuple(ids.tolist()) for ids in sequences(batch)]
    assert len(set(texts)) == len(texts) < 9 + len(batch.value_sequences)
    names = list(zip(batch.rows.tolist(), batch.views.tolist(), strict=True))
    assert len(set(names)) == len(names)
    by_text = {tuple(product_values().tokens(value).tolist()): value for value in range(40)}
    for number in set(batch.value_sequences.tolist()):
        assert names[number] == (by_text[texts[number]], 1)


def test_a_pair_that_has_every_shared_negative_draws_its_own() -> None:
    row = {**product_rows()[0], "values": np.arange(25)}
    found = collate_pairs([row], product_values(), seed=0, step=0, row_indices=[0], drawing=SHARED)
    assert len(values_of(found, 0, True)) == 3 and len(values_of(found, 0, False)) == 6


@pytest.mark.parametrize("drawing", [DRAWING, SHARED])
def test_loss_is_equation_3_computed_pair_by_pair(drawing: Drawing) -> None:
    torch.manual_seed(0)
    batch = collated([0, 1, 2, 3, 4, 5], drawing=drawing)
    head = AttributeHead(6, 0.5)
    states_SD = torch.randn(batch.sequences, 6, dtype=torch.float32, requires_grad=True)
    for norm in (1, 2):
        found = attribute_loss(distances(head(states_SD), batch, norm), batch, margin=0.7)
        expected = plain_loss(states_SD, head, batch, norm, 0.7)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        of = [states_SD, *head.parameters()]
        for ours, theirs in zip(torch.autograd.grad(found, of), torch.autograd.grad(expected, of), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def plain_loss(states: Tensor, head: AttributeHead, batch: PairBatch, norm: int, margin: float) -> Tensor:
    """Equation 3, triple by triple, with E(t ⊕ n) projected anew for each."""

    def f(state: Tensor) -> Tensor:
        return torch.nn.functional.gelu(head.dense.weight @ state + head.dense.bias)

    def d(pair: int, value: int) -> Tensor:
        difference = f(states[batch.pair_sequences[pair]]) - f(states[batch.value_sequences[value]])
        return difference.abs().sum() if norm == 1 else (difference**2).sum().sqrt()

    total = torch.zeros(())
    for pair in range(len(batch.pair_sequences)):
        positives = [v for v, of in enumerate(batch.value_pairs) if of == pair and batch.is_positive[v]]
        negatives = [v for v, of in enumerate(batch.value_pairs) if of == pair and not batch.is_positive[v]]
        for value in positives:
            total = total - torch.log(torch.sigmoid(margin - d(pair, value)))
            for other in negatives:
                total = total - torch.log(torch.sigmoid(d(pair, other) - margin)) / len(negatives)
    return total


def test_each_side_is_ln_2_where_every_distance_is_the_margin() -> None:
    batch = collated([0, 1, 2])
    loss = attribute_loss(torch.full((len(batch.value_pairs),), 4.0), batch, 4.0)
    assert float(loss) == pytest.approx(2 * math.log(2) * batch.positives, rel=1e-6)


def test_equal_texts_give_no_gradient_that_is_not_a_number() -> None:
    """‖a − a‖ has no derivative; a title that is its own value must not end a run."""
    batch = collated([0])
    projected_SD = torch.ones(batch.sequences, 4, requires_grad=True)
    attribute_loss(distances(projected_SD, batch, 2), batch, 4.0).backward()
    assert projected_SD.grad is not None and bool(projected_SD.grad.isfinite().all())


@settings(max_examples=200, deadline=None)
@given(
    pool=st.sets(st.integers(0, 30)),
    excluded=st.sets(st.integers(0, 35)),
    count=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_others_are_distinct_members_that_are_not_excluded(
    pool: set[int], excluded: set[int], count: int, seed: int
) -> None:
    found = others_of(np.array(sorted(pool), np.uint32), np.array(sorted(excluded), np.int64), count, draws(seed))
    assert len(set(found.tolist())) == len(found) == min(count, len(pool - excluded))
    assert set(found.tolist()) <= pool - excluded


def draws(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def test_every_other_value_is_drawn_equally_often() -> None:
    pool, excluded = np.arange(0, 20, 2), np.array([4, 5, 18])
    seen = Counter(value for seed in range(4_000) for value in others_of(pool, excluded, 2, draws(seed)).tolist())
    assert sorted(seen) == [0, 2, 6, 8, 10, 12, 14, 16]
    assert all(count == pytest.approx(1_000, rel=0.12) for count in seen.values())


def test_negatives_are_of_the_same_attribute_until_these_run_out() -> None:
    values = product_values()
    own = set(values.of(1).tolist())
    positive = sorted(own)[:1]
    few = values.negatives(1, positive, 2, draws(0))
    assert set(few.tolist()) <= own - set(positive)
    many = values.negatives(1, positive, len(own) + 3, draws(0)).tolist()
    assert set(many[: len(own) - 1]) == own - set(positive)
    assert len(set(many)) == len(own) + 3 and not set(many[len(own) - 1 :]) & own


def test_negatives_by_frequency_are_those_of_random_records() -> None:
    """Attribute 0 has values 0 to 24 with 1, 2, 3, 1, … titles; 3 is a positive."""
    values, drawn = product_values(), Counter[int]()
    for seed in range(6_000):
        found = values.negatives(0, [3], 1, draws(seed), by_frequency=True).tolist()
        assert len(found) == 1 and found[0] != 3
        drawn[found[0]] += 1
    weights = {value: 1 + value % 3 for value in range(25) if value != 3}
    total = sum(weights.values())
    assert all(drawn[value] / 6_000 == pytest.approx(weight / total, abs=0.012) for value, weight in weights.items())
    whole = values.negatives(0, [3], 24, draws(1), by_frequency=True).tolist()
    assert sorted(whole) == sorted(weights)
    beyond = values.negatives(1, [25], 6, draws(1), by_frequency=True).tolist()
    assert len(set(beyond)) == 6 and {26, 27, 28, 29} < set(beyond) and 25 not in beyond


def test_both_draws_take_half_of_the_negatives_by_frequency() -> None:
    """One of a pair's two negatives is by frequency: of attribute 0, values with 3 titles come up more than with 1."""
    drawn = Counter[int]()
    row, of = {**product_rows()[0], "values": [3]}, {5 + value: value for value in range(25)}
    drawing = Drawing(most_values=1, negatives=2, by_frequency=0.5)
    for step in range(3_000):
        batch = collate_pairs([row], product_values(), seed=0, step=step, row_indices=[0], drawing=drawing)
        drawn.update(of[value[1]] for value in values_of(batch, 0, False))
    once, thrice = (
        np.mean([drawn[value] for value in range(25) if value != 3 and value % 3 == kind]) for kind in (0, 2)
    )
    # 47 titles in all: by frequency 1 or 3 of 47, equally 1 of 24.
    assert float(thrice / once) == pytest.approx((3 / 47 + 1 / 24) / (1 / 47 + 1 / 24), rel=0.1)


def test_values_are_mapped_from_their_files(tmp_path: Path) -> None:
    values = product_values()
    values.save(tmp_path)
    loaded = ProductValues.load(tmp_path)
    assert isinstance(loaded.ids, np.memmap)
    for name in ProductValues.FILES:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(values, name))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"values": []}, "row 7: its title has no value"), ({"values": range(40)}, "row 7: there is no value that")],
)
def test_a_row_that_gives_no_triple_is_named(change: dict[str, Any], message: str) -> None:
    row = {**product_rows()[0], **change}
    with pytest.raises(ValueError, match=message):
        collate_pairs([row], product_values(), seed=0, step=0, row_indices=[7], drawing=DRAWING)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.integers(1, 6))
def test_farther_negatives_are_those_of_all_comparisons(seed: int, levels: int) -> None:
    batch = collated([0, 1, 2, 3, 4], seed=seed)
    distance = torch.randint(levels, (len(batch.value_pairs),), generator=torch.Generator().manual_seed(seed)).float()
    of, right, far = batch.value_pairs.tolist(), batch.is_positive.tolist(), distance.tolist()
    compared = [
        (one, other)
        for one in range(len(of))
        for other in range(len(of))
        if of[one] == of[other] and right[one] and not right[other]
    ]
    farther = sum(1.0 if far[other] > far[one] else 0.5 * (far[other] == far[one]) for one, other in compared)
    assert farther_negatives(distance, batch) == (pytest.approx(farther), len(compared))
