"""Filtered ranks against a ranking made by hand, ties and repeated facts included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.embedding import link_prediction
from kg.embedding.batches import Triples
from kg.embedding.known import KnownTriples
from kg.embedding.link_prediction import filtered_ranks, means_of, rank_figures, rank_sums
from kg.transe import TransE
from kg.transr import TransR
from tests.support.graphs.embedding_graphs import plain_distance, randomised

ENTITIES, RELATIONS = 6, 3
triple_lists = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=15,
    unique=True,
)


def brute_force(model: torch.nn.Module, triple: tuple[int, int, int], known: set[tuple[int, int, int]]) -> list[float]:
    head, relation, tail = triple
    ranks = []
    for corrupted in (
        [(head, relation, entity) for entity in range(ENTITIES)],
        [(entity, relation, tail) for entity in range(ENTITIES)],
    ):
        own = plain_distance(model, *triple).item()
        rivals = [plain_distance(model, *other).item() for other in corrupted if other not in known | {triple}]
        closer = sum(distance < own - 1e-9 for distance in rivals)
        equal = sum(abs(distance - own) <= 1e-9 for distance in rivals)
        ranks.append(1 + closer + equal / 2)
    return ranks


@settings(max_examples=30, deadline=None)
@given(triple_lists, triple_lists, st.integers(0, 99), st.booleans())
def test_ranks_equal_brute_force(
    judged: list[tuple[int, int, int]], others: list[tuple[int, int, int]], seed: int, project: bool
) -> None:
    empty = TransR(ENTITIES, RELATIONS, 4, 3) if project else TransE(ENTITIES, RELATIONS, 4)
    model = randomised(empty, seed, length=0.6)
    known = set(others)  # evaluated triples may be known or not
    ranks = filtered_ranks(model, triples_of(judged), known_of(others))
    assert ranks.tolist() == [brute_force(model, triple, known) for triple in judged]


@given(triple_lists)
@settings(max_examples=20, deadline=None)
def test_equal_scores_share_the_middle_rank(judged: list[tuple[int, int, int]]) -> None:
    model = TransE(ENTITIES, RELATIONS, 4)
    with torch.no_grad():
        model.entities.fill_(0.5)
    known = set(judged)
    ranks = filtered_ranks(model, triples_of(judged), known_of(judged))
    assert ranks.tolist() == [
        [
            1 + sum((h, r, e) not in known for e in range(ENTITIES)) / 2,
            1 + sum((e, r, t) not in known for e in range(ENTITIES)) / 2,
        ]
        for h, r, t in judged
    ]


def test_many_queries_are_ranked_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = randomised(TransR(ENTITIES, RELATIONS, 4, 3), 1)
    grid = np.indices((ENTITIES, RELATIONS, ENTITIES)).reshape(3, -1)
    known = KnownTriples(*grid[:, ::3], ENTITIES, RELATIONS)
    whole = filtered_ranks(model, Triples.of(*grid), known)
    monkeypatch.setattr(link_prediction, "QUERIES_AT_ONCE", 5)
    assert np.array_equal(filtered_ranks(model, Triples.of(*grid), known), whole)


def test_figures() -> None:
    ranks = np.array([[1.0, 2.0], [4.0, 20.0]])
    figures = rank_figures(ranks)
    assert figures == pytest.approx(
        {"mrr": (1 + 1 / 2 + 1 / 4 + 1 / 20) / 4, "hits_at_1": 0.25, "hits_at_3": 0.5, "hits_at_10": 0.75}
    )
    parts = [rank_sums(part) for part in ranks]
    assert means_of({name: parts[0][name] + parts[1][name] for name in parts[0]}) == pytest.approx(figures)
    assert np.isnan(rank_figures(ranks[:0])["mrr"])


def triples_of(triples: list[tuple[int, int, int]]) -> Triples:
    return Triples.of(*np.array(triples).T)


def known_of(triples: list[tuple[int, int, int]]) -> KnownTriples:
    return KnownTriples(*np.array(triples).T, ENTITIES, RELATIONS)
