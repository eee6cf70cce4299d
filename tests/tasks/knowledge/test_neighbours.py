"""The stage `neighbours`: the ranks of kg/pepr/ranking.py, whatever the units; broken graphs are rejected."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.session import RayExecutor, start_ray, stop_ray
from infra.errors import UserError
from infra.stage import run
from kg.graph import KnowledgeGraph
from kg.pepr import core_inverse, elimination
from kg.pepr.ranking import rank_neighbours
from tasks.knowledge import neighbours as room
from tasks.knowledge.neighbours import NeighbourParams, neighbours
from tests.support.graphs.graph_artifacts import graph_artifact, random_triples
from tests.support.text.stages import do


def rows(artifact: Artifact) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in artifact.to_table().to_pylist()]


def test_the_stage_ranks_as_the_function(store: ArtifactStore) -> None:
    triples = random_triples(1)
    artifact = do(store, neighbours, NeighbourParams(k=4, alpha=0.3), graph=graph_artifact(store, triples))
    graph = KnowledgeGraph.from_triples(triples)
    table = rank_neighbours(graph, None, 4, 0.3)
    assert rows(artifact) == [tuple(row.values()) for row in table.to_pylist()]
    assert artifact.manifest.counters["entities"] == len(set(table["entity"].to_pylist()))
    assert artifact.manifest.counters["candidates"] > table.num_rows
    pairs = Counter(frozenset((head, tail)) for head, _, tail in set(triples) if head != tail)
    several = sum(2 for count in pairs.values() if count > 1)
    assert artifact.manifest.counters["candidates_with_several_triples"] == several > 0


def test_every_triple_of_a_neighbour_is_kept(store: ArtifactStore) -> None:
    triples = random_triples(5)
    artifact = do(store, neighbours, NeighbourParams(k=1000), graph=graph_artifact(store, triples))
    found = Counter(
        (row["entity_id"], one["relation"], row["neighbour_id"], one["direction"])
        for row in artifact.to_table().to_pylist()
        for one in ({"relation": row["relation"], "direction": row["direction"]}, *row["others"])
    )
    wanted = {(head, relation, tail, 1) for head, relation, tail in triples if head != tail}
    wanted |= {(tail, relation, head, -1) for head, relation, tail in triples if head != tail}
    assert found == Counter(wanted)


@pytest.mark.parametrize(("candidates", "block"), [(1, 7), (50, 1000)])
def test_units_change_nothing(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, candidates: int, block: int
) -> None:
    graph = graph_artifact(store, random_triples(2))
    usual = do(store, neighbours, NeighbourParams(), graph=graph)
    monkeypatch.setattr(room, "CANDIDATES_A_UNIT", candidates)
    monkeypatch.setattr(elimination, "MAX_CLIQUE", 4)
    monkeypatch.setattr(core_inverse, "ROWS_A_BLOCK", block)
    other = do(store, neighbours, NeighbourParams(max_dense=0), graph=graph)
    assert other.manifest.counters["core_entities"] > 20
    assert len(other.parts()) > len(usual.parts())
    assert [row[:5] for row in rows(other)] == [row[:5] for row in rows(usual)]
    assert [row[5] for row in rows(other)] == pytest.approx([row[5] for row in rows(usual)], rel=1e-12)


def test_ranges_alone_change_no_bit(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_artifact(store, random_triples(3))
    usual = rows(do(store, neighbours, NeighbourParams(), graph=graph))
    monkeypatch.setattr(room, "CANDIDATES_A_UNIT", 13)
    elsewhere = ArtifactStore(f"{store.root}-again")
    again = do(elsewhere, neighbours, NeighbourParams(), graph=graph_artifact(elsewhere, random_triples(3)))
    assert len(again.parts()) > 10
    assert rows(again) == usual


@pytest.mark.ray
def test_workers_change_no_bit(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CANDIDATES_A_UNIT", 13)
    monkeypatch.setattr(elimination, "MAX_CLIQUE", 4)
    monkeypatch.setattr(core_inverse, "ROWS_A_BLOCK", 7)
    params = NeighbourParams(max_dense=0)
    usual = do(store, neighbours, params, graph=graph_artifact(store, random_triples(4)))
    elsewhere = ArtifactStore(f"{store.root}-again")
    graph = graph_artifact(elsewhere, random_triples(4))
    try:
        start_ray(2, None)
        again = run(neighbours, elsewhere, params, {"graph": graph}, executor=RayExecutor(workers=2)).artifact
    finally:
        stop_ray()
    assert rows(again) == rows(usual)
    assert again.manifest.counters == usual.manifest.counters


def test_a_graph_without_triples_has_no_neighbours(store: ArtifactStore) -> None:
    assert do(store, neighbours, NeighbourParams(), graph=graph_artifact(store, ())).rows() == 0


def test_triple_of_an_unknown_entity_is_rejected(store: ArtifactStore) -> None:
    broken = graph_artifact(store, (("感冒", "症状", "发热"), ("感冒", "症状", "咳嗽")), lost="发热")
    with pytest.raises(UserError, match="发热"):
        do(store, neighbours, NeighbourParams(), graph=broken)
