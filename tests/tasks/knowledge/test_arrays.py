"""The stage `knowledge_arrays`: what is in the tables is in the arrays, and other graphs are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from models.knowledge import KnowledgeArrays
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays
from tests.support.graphs.given_knowledge import given_knowledge
from tests.support.text.stages import do

ENTITIES = [  # not in the order of their ids
    {"entity_id": "z", "name": "糖尿病", "type": "疾病"},
    {"entity_id": "a", "name": "二甲双胍", "type": "药物"},
    {"entity_id": "m", "name": "多饮", "type": ""},
    {"entity_id": "孤立", "name": "没有三元组", "type": "疾病"},
]
TRIPLES = [("z", "药物", "a"), ("a", "治疗", "z"), ("z", "相关", "a"), ("z", "症状", "m"), ("m", "药物", "m")]
COUNTS = {"z": 7, "m": 2}


def arrays_of(store: ArtifactStore, **changed: Artifact) -> Artifact:
    inputs = given_knowledge(store, ENTITIES, TRIPLES, COUNTS) | changed
    return do(store, knowledge_arrays, KnowledgeArraysParams(), **inputs)


def opened(artifact: Artifact) -> KnowledgeArrays:
    return KnowledgeArrays.open(artifact.path)


def test_rows_are_those_of_the_graph(store: ArtifactStore) -> None:
    known = opened(arrays_of(store))
    assert [known.entity_id(row) for row in range(4)] == ["z", "a", "m", "孤立"]
    assert [known.type_names[kind] if kind >= 0 else None for kind in known.types] == ["疾病", "药物", None, "疾病"]
    assert known.frequencies.tolist() == [7, 0, 2, 0]
    assert known.relation_names == tuple(sorted({relation for _, relation, _ in TRIPLES}))


def test_neighbours_keep_their_order_and_all_triples(store: ArtifactStore) -> None:
    inputs = given_knowledge(store, ENTITIES, TRIPLES, COUNTS)
    known = opened(arrays_of(store))
    rows = {row["entity_id"]: number for number, row in enumerate(ENTITIES)}
    table = sorted(inputs["neighbours"].to_table().to_pylist(), key=lambda row: (rows[row["entity_id"]], row["rank"]))
    assert known.neighbours.tolist() == [rows[row["neighbour_id"]] for row in table]
    assert np.diff(known.neighbour_offsets).tolist() == [2, 1, 1, 0]
    assert known.scores == pytest.approx([row["score"] for row in table], rel=1e-6)
    for place, row in enumerate(table):
        joined = slice(*known.triple_offsets[place : place + 2])
        found = [
            (known.relation_names[relation], direction)
            for relation, direction in zip(known.relations[joined], known.directions[joined], strict=True)
        ]
        others = [(one["relation"], one["direction"]) for one in row["others"]]
        assert found == [(row["relation"], row["direction"]), *others]
    best = known.best(np.array([rows["z"], rows["孤立"], rows["a"]]), 1)
    assert best.offsets.tolist() == [0, 1, 1, 2]
    # 药物 has two triples in the graph, 相关 one; 治疗 comes in from the other side
    assert [known.relation_names[relation] for relation in best.relations] == ["药物", "治疗"]


def test_vectors_are_those_of_the_tables(store: ArtifactStore) -> None:
    inputs = given_knowledge(store, ENTITIES, TRIPLES, COUNTS)
    known = opened(arrays_of(store))
    vectors = {
        row["entity_id"]: row["vector"] for row in inputs["embeddings"].to_table("kg_entity_vectors").to_pylist()
    }
    assert known.has_vector.tolist() == [True, True, True, False]
    for row in range(3):
        assert known.entity_vectors[row].tolist() == vectors[known.entity_id(row)]
    assert not known.entity_vectors[3].any(), "TransR never learnt the vector of an entity without triples"
    for row in inputs["embeddings"].to_table("kg_relation_vectors").to_pylist():
        place = known.relation_names.index(row["relation"])
        assert known.relation_vectors[place].tolist() == row["vector"]
        assert known.projections[place].ravel().tolist() == row["projection"]
    assert known.projections.shape == (4, 5, 3)


def test_what_entities_lack_is_counted(store: ArtifactStore) -> None:
    counters = arrays_of(store).manifest.counters
    assert {name: counters.get(f"entities_without_{name}") for name in ("neighbours", "vector", "type", "mention")} == {
        "neighbours": 1,
        "vector": 1,
        "type": 1,
        "mention": 2,
    }
    assert (counters["entities"], counters["neighbours"], counters["relations"]) == (4, 4, 4)


def test_the_graph_is_named(store: ArtifactStore) -> None:
    graph = given_knowledge(store, ENTITIES, TRIPLES, COUNTS)["graph"]
    assert opened(arrays_of(store)).graph == (graph.stage, graph.fingerprint)


def test_parts_change_nothing(store: ArtifactStore) -> None:
    def content(parts: int) -> dict[str, bytes]:
        inputs = given_knowledge(store, ENTITIES, TRIPLES, COUNTS, parts=parts)
        folder = do(store, knowledge_arrays, KnowledgeArraysParams(), **inputs).path
        return {file.name: file.read_bytes() for file in Path(folder).glob("*.npy")}

    assert content(1) == content(3)


@pytest.mark.parametrize("name", ["neighbours", "embeddings", "entity_frequencies"])
def test_input_of_another_graph_is_refused(store: ArtifactStore, name: str) -> None:
    other = given_knowledge(store, ENTITIES, TRIPLES[1:], COUNTS)
    with pytest.raises(UserError, match=rf"{name}|kg_embeddings") as error:
        arrays_of(store, **{name: other[name]})
    assert "not of" in str(error.value) and "given_graph" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"counts": {"nobody": 3}}, "entity_id 'nobody' is not in the graph"),
        ({"relations": ("药物",)}, "lacks vectors"),
    ],
)
def test_broken_tables_are_named(store: ArtifactStore, changes: Mapping[str, Any], problem: str) -> None:
    given: dict[str, Any] = {"entities": ENTITIES, "triples": TRIPLES, "counts": COUNTS, **changes}
    inputs = given_knowledge(store, **given)
    with pytest.raises(UserError, match=problem):
        do(store, knowledge_arrays, KnowledgeArraysParams(), **inputs)
