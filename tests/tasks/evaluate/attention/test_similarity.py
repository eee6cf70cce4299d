"""Similarity of attention: parity with plain loops over tokens, and the test against chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.evaluate.attention.params import AttentionParams, layer_of
from tasks.evaluate.attention.similarity import DIRECTIONS, cosine, figures, sums_of, within


def attention_map(size: int, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).random((size, size)).astype(np.float32)
    return weights / weights.sum(1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(4, 12), seed=st.integers(0, 9))
def test_sums_and_cosines_are_those_of_plain_loops(data: st.DataObject, size: int, seed: int) -> None:
    first = data.draw(st.integers(1, size - 2))
    behind = data.draw(st.integers(first + 1, size - 1))
    one, other = attention_map(size, seed), attention_map(size, seed + 100)
    received: list[list[float]] = []
    given_: list[list[float]] = []
    for weights in (one, other):
        received.append([])
        given_.append([])
        for token in range(size):
            if token in (0, size - 1) or first <= token < behind:
                continue
            received[-1].append(sum(float(weights[token, name]) for name in range(first, behind)))
            given_[-1].append(sum(float(weights[name, token]) for name in range(first, behind)))
    for direction, plain in zip(DIRECTIONS, (received, given_), strict=True):
        found = [getattr(sums_of(weights, first, behind), direction) for weights in (one, other)]
        assert [values.tolist() for values in found] == [pytest.approx(values) for values in plain]
        product = sum(x * y for x, y in zip(*plain, strict=True))
        norms = math.prod(math.sqrt(sum(x * x for x in values)) for values in plain)
        assert cosine(*found) == pytest.approx(product / norms if norms else 0.0)
    inside = sum(float(one[i, j]) for i in range(first, behind) for j in range(first, behind)) / (behind - first)
    assert within(one, first, behind) == (pytest.approx(inside), (behind - first) / size)


def test_cosine_ignores_scale_and_is_one_only_for_equal_directions() -> None:
    one, other = np.array([0.1, 0.3, 0.0]), np.array([0.2, 0.1, 0.4])
    assert cosine(one, 7 * one) == pytest.approx(1.0)
    assert cosine(one, other) == cosine(other, one) < 1.0
    assert cosine(one, np.zeros(3)) == 0.0


def rows(groups: int, shift: float, seed: int = 0, per_group: int = 3) -> list[dict[str, Any]]:
    drawn = np.random.default_rng(seed)
    return [
        {
            "group_id": f"g{group}",
            "received_synonym": float(drawn.normal(0.5 + shift, 0.1)),
            "received_random": float(drawn.normal(0.5, 0.1)),
        }
        for group in range(groups)
        for _ in range(per_group)
    ]


def test_a_real_difference_is_found_and_chance_is_not() -> None:
    found = figures(rows(60, 0.1), "received", 500, 1)
    assert found["p_value"] == pytest.approx(1 / 501)
    assert 0 < found["low"] < found["difference"] < found["high"]
    assert found["difference"] == pytest.approx(found["synonym"] - found["random"])
    assert 0.5 < found["nearer_low"] < found["nearer"] < found["nearer_high"] <= 1
    assert (found["sentences"], found["groups"]) == (180, 60)
    # Of 100 analyses without a difference, about five have a p-value under 0.05.
    by_chance = [figures(rows(20, 0.0, seed), "received", 200, 1)["p_value"] for seed in range(100)]
    assert 0 <= sum(value < 0.05 for value in by_chance) <= 12
    assert 0.3 < np.mean(by_chance) < 0.7


def test_sentences_of_one_group_count_as_one_observation() -> None:
    """A thousand sentences about one entity show nothing of entities in general."""
    one = figures(rows(1, 0.3, per_group=1_000), "received", 200, 1)
    assert one["difference"] > 0.25 and one["p_value"] == 1.0


def test_equal_similarities_are_as_near_as_chance() -> None:
    same = [{"group_id": str(number), "received_synonym": 0.5, "received_random": 0.5} for number in range(8)]
    found = figures(same, "received", 200, 1)
    assert (found["difference"], found["nearer"], found["p_value"]) == (0.0, 0.5, 1.0)


def test_figures_of_a_seed_are_always_the_same() -> None:
    some = rows(12, 0.02)
    assert figures(some, "received", 200, 3) == figures(some, "received", 200, 3)
    assert figures(some, "received", 200, 3) != figures(some, "received", 200, 4)


@pytest.mark.parametrize(("layers", "expected"), [(1, 1), (2, 1), (3, 2), (6, 5), (11, 10), (12, 11), (24, 11)])
def test_layer_of_shallow_encoders_is_the_second_last(layers: int, expected: int) -> None:
    assert layer_of(None, 11, layers, "attention.layer") == expected
    assert layer_of(1, 11, layers, "attention.layer") == 1


def test_default_sentences_can_be_drawn() -> None:
    assert all(len(sentence) <= 62 for sentence in AttentionParams().sentences)
