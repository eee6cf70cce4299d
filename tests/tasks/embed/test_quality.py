"""Scores of word vectors: made vectors that know everything or nothing, and pairs that are what they are called."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.word_vectors import WordVectors
from tasks.embed.quality import Name, Quads, is_of_characters, name_vectors, quads_of, score_of

TYPES, GROUPS, PER_GROUP = 3, 10, 2
NAMES = [
    Name(f"{kind}类{group}名{alias}", f"e{kind}.{group}", f"e{kind}.{group}", f"t{kind}")
    for kind in range(TYPES)
    for group in range(GROUPS)
    for alias in range(PER_GROUP)
]
TRIPLES = [(f"e0.{group}", "治疗", f"e1.{group}") for group in range(GROUPS)]


def knowing(seed: int = 0) -> np.ndarray:
    """A direction per type, one per group that all types share, and a little noise: everything can be answered."""
    random = np.random.default_rng(seed)
    kinds, groups = 3 * random.normal(size=(TYPES, 32)), random.normal(size=(GROUPS, 32))
    rows = []
    for name in NAMES:
        kind, group = map(int, name.entity_id[1:].split("."))
        rows.append(kinds[kind] + groups[group] + 0.01 * random.normal(size=32))
    return np.array(rows, dtype=np.float32)


def test_vectors_that_know_the_graph_score_one_and_random_ones_a_half() -> None:
    quads = quads_of(NAMES, TRIPLES, 400, seed=1)
    assert [each.measure for each in quads] == ["synonym", "type", "analogy"]
    for each in quads:
        assert score_of(each, knowing(), 1).score == 1.0
        chance = score_of(each, np.random.default_rng(5).normal(size=(len(NAMES), 32)).astype(np.float32), 1)
        assert chance.low < 0.5 < chance.high and chance.pairs == len(each.near)
        same = score_of(each, np.ones((len(NAMES), 4), dtype=np.float32), 1)
        assert (same.score, same.low, same.high) == (0.5, 0.5, 0.5)


def test_pairs_are_what_they_are_called() -> None:
    triples = {(head, tail) for head, _, tail in TRIPLES}
    for quads in quads_of(NAMES, TRIPLES, 400, seed=2):
        assert len(quads.near) > 5
        for (a, b, c), near, far in zip(quads.start.tolist(), quads.near.tolist(), quads.far.tolist(), strict=True):
            one, other, third = NAMES[c], NAMES[near], NAMES[far]
            if quads.measure == "synonym":
                assert a == b == c != near and one.group == other.group != third.group and third.type == one.type
            elif quads.measure == "type":
                assert a == b == c and one.type == other.type != third.type and one.group != other.group
            else:
                assert len({a, b, c, near, far}) == 5 and third.type == other.type
                assert {(NAMES[a].entity_id, NAMES[b].entity_id), (one.entity_id, other.entity_id)} <= triples
                assert (one.entity_id, third.entity_id) not in triples


@settings(max_examples=20)
@given(order=st.permutations(range(len(NAMES))), seed=st.integers(0, 9))
def test_draws_do_not_depend_on_the_order_of_names_and_triples(order: list[int], seed: int) -> None:
    def drawn(names: list[Name], triples: list[tuple[str, str, str]]) -> list[list[tuple[str, ...]]]:
        return [
            [tuple(names[place].surface for place in (*start, near, far)) for start, near, far in rows_of(quads)]
            for quads in quads_of(names, triples, 30, seed)
        ]

    assert drawn(NAMES, TRIPLES) == drawn([NAMES[place] for place in order], TRIPLES[::-1])


def rows_of(quads: Quads) -> list[tuple[list[int], int, int]]:
    return list(zip(quads.start.tolist(), quads.near.tolist(), quads.far.tolist(), strict=True))


@pytest.mark.parametrize("names", [[], NAMES[:1], [Name("头痛", "a", "a", "")]])
def test_without_pairs_there_is_no_measure(names: list[Name]) -> None:
    assert quads_of(names, TRIPLES, 10, seed=1) == []


def test_names_are_words_or_the_means_of_characters() -> None:
    words = WordVectors(["头痛", "头", "痛"], np.array([[9, 9], [1, 0], [0, 1]], dtype=np.float32))
    characters = WordVectors(["头", "痛"], np.array([[1, 0], [0, 1]], dtype=np.float32))
    assert not is_of_characters(words) and is_of_characters(characters)
    asked = ["头痛", "头 痛", "头晕", "痛", ""]
    nan = [np.nan, np.nan]
    assert np.array_equal(name_vectors(words, asked), [[9, 9], nan, nan, [0, 1], nan], equal_nan=True)
    means = name_vectors(characters, asked)
    assert np.array_equal(means, [[0.5, 0.5], [0.5, 0.5], nan, [0, 1], nan], equal_nan=True)
