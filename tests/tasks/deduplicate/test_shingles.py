"""Shingles, sketches and graph components agree with plain implementations."""

from __future__ import annotations

import random

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.deduplicate.clusters import ANCHORS, NEIGHBOURS, components, pairs_of_groups, verified_clusters
from tasks.deduplicate.shingles import jaccard, mix, shingle
from tasks.deduplicate.similarity import BINS, bands, estimate, fingerprints, rows_for, sketch
from tests.support.text.edited import document, edited

TEXTS = st.lists(st.text(st.sampled_from("病人血压1２ 𠮷a"), max_size=12), max_size=8)


def plain(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


@given(texts=TEXTS, size=st.integers(1, 5))
def test_shingles_are_the_runs_of_each_text(texts: list[str], size: int) -> None:
    found = shingle(texts, size)
    seen: dict[str, int] = {}
    for number, text in enumerate(texts):
        runs = [text[at : at + size] for at in range(len(text) - size + 1)]
        assert len(found.of(number)) == len(runs)
        for run, value in zip(runs, found.of(number).tolist(), strict=True):
            assert seen.setdefault(run, value) == value
    assert len(set(seen.values())) == len(seen)


def test_shingle_without_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        shingle(["病"], 0)


@given(one=st.text("ab病", max_size=20), other=st.text("ab病", max_size=20))
def test_jaccard_is_that_of_sets(one: str, other: str) -> None:
    found = shingle([one, other], 2)
    a, b = plain(one, 2), plain(other, 2)
    expected = len(a & b) / len(a | b) if a | b else 1.0
    assert jaccard(np.unique(found.of(0)), np.unique(found.of(1))) == expected


def test_estimates_are_accurate_for_short_and_long_texts() -> None:
    drawn = random.Random(1)
    for sentences in (1, 3, 40):
        texts = [document(drawn, sentences) for _ in range(150)]
        copies = [edited(text, drawn.choice([0.02, 0.05, 0.1]), drawn) for text in texts]
        one, other = shingle(texts, 5), shingle(copies, 5)
        truth = np.array([jaccard(np.unique(one.of(n)), np.unique(other.of(n))) for n in range(len(texts))])
        error = estimate(fingerprints(sketch(one, 7)), fingerprints(sketch(other, 7))) - truth
        assert abs(error.mean()) < 0.015
        assert error.std() < 0.05


@given(texts=TEXTS, seed=st.integers(0, 3))
def test_sketch_depends_on_the_set_of_shingles_alone(texts: list[str], seed: int) -> None:
    together = sketch(shingle(texts, 2), seed)
    for number, text in enumerate(texts):
        alone = sketch(shingle([text], 2), seed)
        assert (alone[0] == together[number]).all()
        runs = sorted(plain(text, 2))
        twice = sketch(shingle([text + text[-1:] * 0, text], 2), seed)
        assert (twice[0] == twice[1]).all()
        assert (len(runs) > 0) == bool((alone[0] != np.uint64(2**64 - 1)).all())


def test_repeated_shingles_do_not_change_a_sketch() -> None:
    once, often = sketch(shingle(["abcab"], 2), 0), sketch(shingle(["abcabcabcabcab"], 2), 0)
    assert (once == often).all()


def test_each_bin_has_a_hash_function_of_its_own() -> None:
    """Of a text with one shingle every bin takes its value, in a round or by itself."""
    assert len(np.unique(sketch(shingle(["头痛"], 2), 5))) == BINS


def test_of_a_chain_the_first_64_that_stay_drop_their_neighbours() -> None:
    drawn = random.Random(3)
    text = "".join(chr(drawn.randrange(0x4E00, 0x9FA5)) for _ in range(2_000))
    forms = [text[at : at + 40] for at in range(0, 1_400, 10)]  # 36 shingles, of which neighbours share 26
    one = np.arange(len(forms) - 1)
    found = verified_clusters(forms, one, one + 1, threshold=0.5, size=5)
    assert found == [(2 * number + 1, 2 * number, pytest.approx(26 / 46)) for number in range(64)]


def test_bands_find_the_promised_share_of_similar_texts() -> None:
    drawn = random.Random(2)
    texts = [document(drawn, 5) for _ in range(800)]
    copies = [edited(text, drawn.choice([0.02, 0.03, 0.05, 0.08]), drawn) for text in texts]
    one, other = shingle(texts, 5), shingle(copies, 5)
    truth = np.array([jaccard(np.unique(one.of(n)), np.unique(other.of(n))) for n in range(len(texts))])
    left, right = sketch(one, 3), sketch(other, 3)
    for threshold, low, high, least in ((0.8, 0.8, 1.01, 0.99), (0.7, 0.7, 0.8, 0.95), (0.5, 0.5, 0.7, 0.9)):
        rows, groups = rows_for(threshold), np.zeros(len(texts), dtype=np.uint64)
        shared = (bands(left, rows, groups) == bands(right, rows, groups)).any(axis=1)
        wanted = (truth >= low) & (truth < high)
        assert wanted.sum() > 100
        assert shared[wanted].mean() >= least


def test_different_groups_share_no_band() -> None:
    found = sketch(shingle(["患者出现发热咳嗽头痛"] * 2, 5), 0)
    shares = bands(found, 4, np.array([1, 2], dtype=np.uint64))
    assert shares.shape == (2, BINS // 4)
    assert not (shares[0] == shares[1]).any()


@pytest.mark.parametrize(
    ("threshold", "rows", "promised"),
    [
        (0.5, 4, 0.87),
        (0.55, 4, 0.95),
        (0.6, 4, 0.98),
        (0.699, 4, 0.99),
        (0.7, 5, 0.985),
        (0.8, 6, 0.99),
        (1.0, 6, 0.99),
    ],
)
def test_bands_have_as_many_bins_as_find_the_promised_share(threshold: float, rows: int, promised: float) -> None:
    """Sketches of corpora are compared with those of later runs, so the number is part of what they mean."""
    assert rows_for(threshold) == rows
    assert 1 - (1 - threshold**rows) ** (BINS // rows) >= promised


@pytest.mark.parametrize(
    ("equal", "expected"), [(BINS, 1.0), (BINS // 2, (0.5 - 1 / 256) / (255 / 256)), (0, -1 / 255)]
)
def test_estimate_leaves_out_what_chance_makes_equal(equal: int, expected: float) -> None:
    one, other = np.zeros((1, BINS), np.uint8), np.ones((1, BINS), np.uint8)
    other[0, :equal] = 0
    assert estimate(one, other).tolist() == [pytest.approx(expected)]


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01])
def test_threshold_outside_0_to_1_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="similarity"):
        rows_for(threshold)


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 40), edges=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=60))
def test_components_are_those_of_networkx(count: int, edges: list[tuple[int, int]]) -> None:
    edges = [(a % count, b % count) for a, b in edges]
    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    one, other = (np.array([edge[side] for edge in edges], dtype=np.int64) for side in (0, 1))
    found = components(count, one, other)
    for component in networkx.connected_components(graph):
        assert {found[node] for node in component} == {min(component)}


@given(sizes=st.lists(st.integers(1, 40), max_size=6))
def test_groups_are_joined_by_linearly_many_pairs(sizes: list[int]) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    one, other = pairs_of_groups(groups)
    assert (one < other).all() and (groups[one] == groups[other]).all()
    assert len(set(zip(one.tolist(), other.tolist(), strict=True))) == len(one) <= (ANCHORS + NEIGHBOURS) * len(groups)
    assert len(np.unique(components(len(groups), one, other))) == len(sizes)
    small = np.isin(groups, [group for group, size in enumerate(sizes) if size <= ANCHORS])
    assert small[one].sum() == sum(size * (size - 1) // 2 for size in sizes if size <= ANCHORS)


@pytest.mark.parametrize(("draw", "expected"), [(1, 6457827717110365317), (2, 3203168211198807973)])
def test_mixing_is_splitmix64s(draw: int, expected: int) -> None:
    """The numbers that its authors' program gives first for the seed 1234567; sketches of two versions must agree."""
    state = (1234567 + draw * 0x9E3779B97F4A7C15) % 2**64
    assert int(mix(np.uint64(state))) == expected
