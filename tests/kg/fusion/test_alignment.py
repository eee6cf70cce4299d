"""Borders of the evidence by which nodes are aligned."""

from __future__ import annotations

import pytest

from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import fuse
from kg.graph import KnowledgeGraph


@pytest.mark.parametrize(("bearers", "entities"), [(2, 1), (3, 1), (4, 4)])
def test_alias_joins_as_many_nodes_as_allowed_and_no_more(bearers: int, entities: int) -> None:
    """A word that many nodes have as alias, such as 综合征, names none of them."""
    sources = [
        KnowledgeGraph.from_triples([(f"{number}病", "症状", "发热")], source=number, aliases={f"{number}病": ["共名"]})
        for number in "甲乙丙丁"[:bearers]
    ]
    graph = fuse(sources, AlignmentOptions(max_holders=3))
    assert len([name for name in graph.names if name.endswith("病")]) == entities


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        (("Symptom", "Disease", "Symptom"), "Symptom"),  # although Disease comes first by name
        (("Disease", "Symptom", "Symptom"), "Symptom"),
        (("Symptom", "Disease"), "Disease"),  # of equals the first by name
    ],
)
def test_type_is_that_of_most_sources(said: tuple[str, ...], type_: str) -> None:
    sources = [
        KnowledgeGraph.from_triples([("头痛", "部位", "头")], source=f"source {number}", types={"头痛": one})
        for number, one in enumerate(said)
    ]
    graph = fuse(sources)
    assert graph.types[graph.names.index("头痛")] == type_
