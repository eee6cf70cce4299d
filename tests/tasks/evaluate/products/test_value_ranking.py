"""Ranks of values, what guessing scores, and the draw of wrong candidates."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.evaluate.products.value_ranking import KINDS, KnownValues, known_values, ranks, scores

RECORDS = pl.DataFrame(
    [
        ("甲", "适应症", ["头痛", "发热"]),
        ("乙", "适应症", ["头痛"]),
        ("丙", "适应症", ["咳嗽", "头痛", "腹泻"]),
        ("丙", "成份", ["头孢"]),
    ],
    schema=["title", "attribute", "values"],
    orient="row",
)


def test_known_values_are_counted_by_attribute() -> None:
    known = known_values(RECORDS)
    assert dict(zip(known["适应症"].values, known["适应症"].counts.tolist(), strict=True)) == {
        "头痛": 3,
        "发热": 1,
        "咳嗽": 1,
        "腹泻": 1,
    }
    assert known["成份"].values == ["头孢"]


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_candidates_are_distinct_and_never_right(kind: str) -> None:
    known = known_values(RECORDS)["适应症"]
    for number in (1, 2, 9):
        found = known.wrong(["头痛"], number, kind, "key")
        assert len(found) == len(set(found)) == min(number, 3) and "头痛" not in found
    assert known.wrong(known.values, 5, kind, "key") == []
    assert known.wrong(["发热"], 2, kind, "key") == known.wrong(["发热"], 2, kind, "key")


def test_frequent_values_are_drawn_more_often_only_in_proportion_to_records() -> None:
    known = KnownValues(["少", "多", "对"], np.array([1, 9, 5]))
    drawn = {
        kind: Counter(known.wrong(["对"], 1, kind, str(key))[0] for key in range(2_000))["多"] / 2_000 for kind in KINDS
    }
    assert drawn["values"] == pytest.approx(0.5, abs=0.05)
    assert drawn["records"] == pytest.approx(0.9, abs=0.03)


@settings(max_examples=100, deadline=None)
@given(
    right=st.lists(st.integers(0, 5), min_size=1, max_size=5), wrong=st.lists(st.integers(0, 5), min_size=1, max_size=9)
)
def test_ranks_are_counted_among_the_wrong_with_half_of_the_ties(right: list[int], wrong: list[int]) -> None:
    expected = [1 + sum(w < r for w in wrong) + sum(w == r for w in wrong) / 2 for r in right]
    assert ranks(np.array(right, float), np.array(wrong, float)).tolist() == expected


def test_chance_is_what_random_ranks_score() -> None:
    generator = np.random.default_rng(1)
    sizes = generator.integers(2, 60, 40_000)
    random = 1 + (generator.random(len(sizes)) * sizes).astype(int)
    found = scores(random, sizes)
    for name in ("mrr", "hits@1", "hits@10"):
        assert found[name] == pytest.approx(found[f"{name}_chance"], abs=0.01)
    assert scores([1, 4], [100, 100])["mrr"] == pytest.approx(0.625)
    assert scores([1, 4], [100, 100])["hits@1_chance"] == pytest.approx(0.01)
    assert scores([], []) == {}
