"""The graph's arrays equal its triples, are traversable both ways, and survive saving and loading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from kg.graph import IN, OUT, KnowledgeGraph

Triple = tuple[str, str, str]
names = st.text("ab糖尿病Ⅱ(）", min_size=1, max_size=3)
triples = st.lists(st.tuples(names, st.sampled_from(["is_a", "治疗", "症状"]), names), max_size=25)

DIABETES: list[Triple] = [
    ("糖尿病", "症状", "多饮"),
    ("胰岛素", "治疗", "糖尿病"),
    ("糖尿病", "症状", "多饮"),
    ("糖尿病", "并发症", "糖尿病"),
]


@settings(max_examples=150, deadline=None)
@given(triples)
def test_arrays_have_every_triple_once_in_order(given_triples: list[Triple]) -> None:
    graph = KnowledgeGraph.from_triples(given_triples)
    ends = {end for head, _, tail in given_triples for end in (head, tail)}
    assert list(graph.entity_ids) == graph.names == sorted(ends)
    assert graph.relation_names == sorted({relation for _, relation, _ in given_triples})
    rows = [
        (graph.names[head], graph.relation_names[relation], graph.names[tail])
        for head, relation, tail in zip(graph.heads, graph.relations, graph.tails, strict=True)
    ]
    assert rows == sorted(set(given_triples))
    table = graph.triples()
    assert list(zip(*(table[name].to_pylist() for name in ("head", "relation", "tail")), strict=True)) == rows
    assert (graph.num_entities, graph.num_triples) == (len(ends), len(rows))


@settings(max_examples=150, deadline=None)
@given(triples)
def test_neighbours_equal_those_of_networkx(given_triples: list[Triple]) -> None:
    graph = KnowledgeGraph.from_triples(given_triples)
    peer = nx.MultiDiGraph()
    for head, relation, tail in given_triples:
        peer.add_edge(head, tail, key=relation)
    for index, name in enumerate(graph.names):
        found = Counter(
            (graph.names[other], graph.relation_names[relation], int(direction))
            for other, relation, direction in zip(*graph.neighbours(index), strict=True)
        )
        expected = Counter((tail, relation, OUT) for _, tail, relation in peer.out_edges(name, keys=True))
        expected += Counter((head, relation, IN) for head, _, relation in peer.in_edges(name, keys=True))
        assert found == expected
        middle = graph.adjacency.middles[index] - graph.adjacency.offsets[index]
        assert set(graph.neighbours(index)[2][:middle]) <= {OUT} and set(graph.neighbours(index)[2][middle:]) <= {IN}


def test_neighbours_are_views_and_not_copies() -> None:
    graph = KnowledgeGraph.from_triples(DIABETES)
    around, _, _ = graph.neighbours(graph.index_of("糖尿病"))
    assert np.shares_memory(around, graph.adjacency.neighbours)
    assert len(around) == 4  # two outgoing, two incoming: the self-loop counts both ways


@settings(max_examples=30, deadline=None)
@given(triples)
def test_graph_survives_saving_and_loading(
    tmp_path_factory: pytest.TempPathFactory, given_triples: list[Triple]
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    types = {name: "T" for triple in given_triples for name in triple[:1]}
    aliases = {name: [name + "症", name + "病"] for name in types}
    graph = KnowledgeGraph.from_triples(given_triples, source="cmekg", types=types, aliases=aliases)
    graph.save(folder)
    again = KnowledgeGraph.load(folder)
    assert again == graph
    assert again.aliases == graph.aliases and again.types == graph.types
    assert again.triples().equals(graph.triples())


def test_rows_in_any_order_give_the_same_graph() -> None:
    graph = KnowledgeGraph.from_triples(DIABETES, source="one")
    assert graph.num_triples == 3
    shuffled = KnowledgeGraph.from_tables(
        graph.entities.take(pa.array([2, 0, 1])),
        graph.id_triples().take(pa.array([2, 0, 1])),
    )
    assert shuffled == graph
    assert shuffled != KnowledgeGraph.from_triples(DIABETES, source="two")


def test_types_are_the_most_frequent_in_the_columns_unless_given() -> None:
    frame = pl.DataFrame(
        {
            "head": ["发热", "发热", "流感"],
            "relation": ["见于", "见于", "症状"],
            "tail": ["流感", "肺炎", "发热"],
            "head_type": ["Symptom", "Disease", "Disease"],
            "tail_type": ["Disease", None, "Symptom"],
        }
    )
    graph = KnowledgeGraph.from_frame(frame, types={"肺炎": "Lung"})
    assert dict(zip(graph.names, graph.types, strict=True)) == {"发热": "Symptom", "流感": "Disease", "肺炎": "Lung"}


def test_no_triples_give_an_empty_graph(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples([])
    assert (graph.num_entities, graph.num_relations, graph.num_triples) == (0, 0, 0)
    assert graph.triples().num_rows == 0 and len(graph.adjacency.neighbours) == 0
    graph.save(tmp_path)
    assert KnowledgeGraph.load(tmp_path) == graph


def test_missing_end_becomes_the_empty_name() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", None), ("", "r", "a")])  # type: ignore[list-item]
    assert graph.names == ["", "a"] and graph.num_triples == 2


def test_inconsistent_tables_are_rejected() -> None:
    graph = KnowledgeGraph.from_triples(DIABETES)
    with pytest.raises(UserError, match="is not in kg_entities"):
        KnowledgeGraph.from_tables(graph.entities.slice(1), graph.id_triples())
    with pytest.raises(UserError, match="twice"):
        KnowledgeGraph.from_tables(pa.concat_tables([graph.entities] * 2), graph.id_triples())
    with pytest.raises(UserError, match="distinct"):
        KnowledgeGraph.from_tables(graph.entities, pa.concat_tables([graph.id_triples()] * 2))


def test_indices_out_of_range_are_rejected(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples(DIABETES)
    with pytest.raises(IndexError):
        graph.neighbours(graph.num_entities)
    with pytest.raises(KeyError):
        graph.index_of("没有")
    with pytest.raises(UserError, match=r"entities\.parquet"):
        KnowledgeGraph.load(tmp_path)
    with pytest.raises(ValueError, match="tails"):
        KnowledgeGraph(graph.entities, graph.relation_names, [0], [0], [99])
