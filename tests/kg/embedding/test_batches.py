"""Batches and the held-out split: they depend only on the seed; nothing unlearnable is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.embedding.batches import TrainingBatch, TrainingBatches, Triples
from kg.embedding.negatives import BernoulliNegatives
from kg.embedding.split import SplitGraph, hold_out, load_split, save_split


def graph(size: int = 23) -> Triples:
    numbers = np.arange(size)
    return Triples.of(numbers % 7, numbers % 3, (numbers * 5 + numbers // 7) % 11)


def batches(seed: int = 1, batch_size: int = 10) -> TrainingBatches:
    given_triples = graph()
    sampler = BernoulliNegatives(given_triples.heads, given_triples.relations, given_triples.tails, 11, 3)
    return TrainingBatches(given_triples, sampler, batch_size=batch_size, negatives=2, seed=seed)


def rows(triples: Triples) -> list[tuple[int, ...]]:
    return list(zip(triples.heads.tolist(), triples.relations.tolist(), triples.tails.tolist(), strict=True))


def same(one: TrainingBatch, other: TrainingBatch) -> bool:
    return (
        rows(one.positives) == rows(other.positives)
        and np.array_equal(one.entities, other.entities)
        and np.array_equal(one.of_head, other.of_head)
    )


def test_epoch_has_every_triple_once() -> None:
    run = batches()
    assert run.steps_per_epoch == 3
    for epoch in range(3):
        seen = [row for step in range(3 * epoch, 3 * epoch + 3) for row in rows(run.at(step).positives)]
        assert sorted(seen) == sorted(rows(graph()))
    assert not same(run.at(0), run.at(3))


def test_batch_depends_only_on_seed_and_step() -> None:
    one, other = batches(), batches()
    for step in (5, 0, 4, 0):  # in any order
        assert same(one.at(step), other.at(step))
    other.at(8)
    assert same(one.at(2), other.at(2))
    assert not same(batches(seed=2).at(0), one.at(0))


def test_negatives_of_a_positive_are_adjacent() -> None:
    batch = batches().at(0)
    assert (np.diff(batch.positives.relations) >= 0).all()
    for place, negative in enumerate(rows(batch.negatives())):
        row, column = divmod(place, 2)
        head, relation, tail = rows(batch.positives)[row]
        entity = batch.entities[row, column]
        assert negative == ((entity, relation, tail) if batch.of_head[row, column] else (head, relation, entity))


@given(st.integers(1, 12))
def test_shares_together_are_the_batch(size: int) -> None:
    batch = batches().at(1)
    shares = [batch.shard(rank, size) for rank in range(size)]
    assert [row for share in shares for row in rows(share.positives)] == rows(batch.positives)
    assert np.array_equal(np.concatenate([share.entities for share in shares]), batch.entities)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, unique=True),
    st.integers(0, 20),
    st.integers(0, 5),
)
def test_held_out_triples_can_be_learned_from_the_rest(
    triples: list[tuple[int, int, int]], count: int, seed: int
) -> None:
    given_triples = Triples.of(*np.array(triples).T)
    held = hold_out(given_triples, count, seed)
    assert held.sum() <= count
    assert np.array_equal(held, hold_out(given_triples, count, seed))
    left, judged = given_triples.take(~held), given_triples.take(held)
    assert set(judged.heads) | set(judged.tails) <= set(left.heads) | set(left.tails)
    assert set(judged.relations) <= set(left.relations)


def test_requested_number_of_triples_is_held_out() -> None:
    dense = np.indices((9, 2, 9)).reshape(3, -1)
    held = hold_out(Triples.of(*dense), 40, seed=0)
    assert held.sum() == 40
    assert not np.array_equal(held, hold_out(Triples.of(*dense), 40, seed=1))


@pytest.mark.parametrize("count", [0, -3])
def test_nothing_is_held_out_for_a_count_of_zero(count: int) -> None:
    assert not hold_out(graph(), count, seed=0).any()


def test_split_graph_survives_saving_and_loading(tmp_path: Path) -> None:
    given_graph = SplitGraph(graph(), graph(4), 11, 3)
    path = str(tmp_path / "split.npz")
    save_split(given_graph, path)
    found = load_split(path)
    assert (found.num_entities, found.num_relations) == (11, 3)
    assert (rows(found.training), rows(found.held_out)) == (rows(graph()), rows(graph(4)))
