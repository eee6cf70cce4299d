"""No held-out pair is seen as a pair by anything that models learn from: links, synonyms, neighbours, triples."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from infra.artifacts import Artifact, ArtifactStore
from tasks.knowledge.link import entity_linker
from tasks.knowledge.neighbours import neighbours
from tasks.knowledge.params import NeighbourParams
from tasks.knowledge.thesaurus import ThesaurusParams, thesaurus
from tests.support.graphs.equal_names import PAIRS, graphs_of, held_out_of
from tests.support.text.stages import do

BETWEEN = [("慢性胃病", "上位关系", "慢性胃炎"), ("慢性肝炎", "上位关系", "慢性肝病"), ("慢性肝病", "别称", "少见病")]
"""More that joins the names of pairs, and an alias of two entities."""


def joining(store: ArtifactStore, graph: Artifact) -> dict[str, set[frozenset[str]]]:
    """The pairs that each kind of training data joins."""
    found: dict[str, set[frozenset[str]]] = {}
    linker = entity_linker(graph, {})
    linked = {name: {entity for _, _, entity in linker.link(name)} for pair in PAIRS for name in pair}
    found["links"] = {frozenset(pair) for pair in PAIRS if linked[pair[0]] & linked[pair[1]]}
    groups: dict[str, set[str]] = {}
    for row in do(store, thesaurus, ThesaurusParams(), kg_entities=graph).to_table().to_pylist():
        groups.setdefault(row["group_id"], set()).add(row["surface"])
    found["synonyms"] = {frozenset(two) for names in groups.values() for two in combinations(names, 2)}
    names = {row["entity_id"]: row["name"] for row in graph.to_table("kg_entities").to_pylist()}
    ranked = do(store, neighbours, NeighbourParams(), graph=graph).to_table().to_pylist()
    found["neighbours"] = {frozenset((names[row["entity_id"]], names[row["neighbour_id"]])) for row in ranked}
    stated = graph.to_table("kg_triples").to_pylist()
    found["triples"] = {frozenset((names[row["head"]], names[row["tail"]])) for row in stated}
    held_out = set(map(frozenset, PAIRS))
    return {kind: pairs & held_out for kind, pairs in found.items()}


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


def test_held_out_pairs_are_joined_nowhere(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path, more=BETWEEN)
    assert joining(store, graphs["fused"])["links"] and joining(store, graphs["fused"])["synonyms"]
    held_out = held_out_of(store, graphs)
    assert not any(joining(store, held_out).values())
    assert held_out.manifest.counters["triples_held_out"] == 2
    # Names that were entities still have their neighbours; those of the pair are not lost with it.
    names = {row["entity_id"]: row["name"] for row in held_out.to_table("kg_entities").to_pylist()}
    heads = {names[row["head"]] for row in held_out.to_table("kg_triples").to_pylist()}
    assert {"慢性胃病", "慢性胃炎"} <= heads
    assert {name for pair in PAIRS for name in pair} <= set(names.values())


def test_pairs_that_are_not_held_out_are_still_synonyms(store: ArtifactStore, tmp_path: Path) -> None:
    graphs = graphs_of(store, tmp_path)
    some = held_out_of(store, graphs, share=0.7)
    left = joining(store, some)["synonyms"]
    assert left and left < set(map(frozenset, PAIRS))
