"""Fusion with held-out pairs: what is left of the graph joins none of them, by no evidence and by no triple."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import fuse, fuse_with_evidence
from kg.graph import KnowledgeGraph
from kg.names import normalise_name

NAMES = ["甲病", "乙病", "丙病", "丁病", "甲 病", "II型", "2型", "A00", "B01.1"]
names = st.sampled_from(NAMES)
relations = st.sampled_from(["SameAs", "别称", "ICD10", "is_a", "症状"])


@st.composite
def graphs(draw: st.DrawFn) -> KnowledgeGraph:
    triples = draw(st.lists(st.tuples(names, relations, names), max_size=12))
    aliases = draw(st.dictionaries(names, st.lists(names, max_size=3), max_size=3))
    types = draw(st.dictionaries(names, st.sampled_from(["Disease", "Symptom"]), max_size=4))
    return KnowledgeGraph.from_triples(triples, source=draw(st.sampled_from(["", "own"])), types=types, aliases=aliases)


options = st.builds(
    AlignmentOptions, aliases=st.booleans(), codes=st.booleans(), similarity=st.sampled_from([None, 0.4])
)


def pairs_of(graph: KnowledgeGraph) -> list[tuple[str, str]]:
    """Every name with each alias that is not the same in comparable form."""
    return [
        (name, alias)
        for name, aliases in zip(graph.names, graph.aliases, strict=True)
        for alias in aliases
        if normalise_name(name) != normalise_name(alias)
    ]


def bearers(graph: KnowledgeGraph) -> dict[str, set[int]]:
    """The entities with each comparable name."""
    found: dict[str, set[int]] = {}
    for entity, (name, aliases) in enumerate(zip(graph.names, graph.aliases, strict=True)):
        for one in (name, *aliases):
            found.setdefault(normalise_name(one), set()).add(entity)
    return found


@settings(max_examples=50, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3), options, st.data())
def test_no_held_out_pair_is_joined(
    given_graphs: list[KnowledgeGraph], how: AlignmentOptions, data: st.DataObject
) -> None:
    whole = fuse(given_graphs, how)
    known = pairs_of(whole)
    pairs = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    fusion = fuse_with_evidence(given_graphs, how, held_out=pairs)
    assert pairs or fusion.graph == whole
    entities = bearers(fusion.graph)
    joined = set(zip(fusion.graph.heads.tolist(), fusion.graph.tails.tolist(), strict=True))
    for name, alias in pairs:
        ones, others = (entities.get(normalise_name(end), set()) for end in (name, alias))
        assert not ones & others
        assert all(fusion.graph.aliases[entity] == [] or _spellings_only(fusion.graph, entity) for entity in others)
        assert not joined & {*product(ones, others), *product(others, ones)}


def _spellings_only(graph: KnowledgeGraph, entity: int) -> bool:
    return {normalise_name(alias) for alias in graph.aliases[entity]} == {normalise_name(graph.names[entity])}


@settings(max_examples=25, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3), options)
def test_everything_else_stays(given_graphs: list[KnowledgeGraph], how: AlignmentOptions) -> None:
    """With all pairs held out, every name that a graph has as an entity with triples of its own is still an entity."""
    whole = fuse(given_graphs, how)
    apart = fuse_with_evidence(given_graphs, how, held_out=pairs_of(whole)).graph
    assert {normalise_name(name) for name in whole.names} <= set(bearers(apart))


def test_an_alias_with_neighbours_of_its_own_keeps_them() -> None:
    graph = KnowledgeGraph.from_triples(
        [("甲病", "SameAs", "乙病"), ("甲病", "症状", "热"), ("乙病", "症状", "咳"), ("甲病", "is_a", "乙病")],
        aliases={"乙病": ["丙病"]},
    )
    assert fuse([graph]).num_entities == 3
    fusion = fuse_with_evidence([graph], held_out=[("甲病", "乙病")])
    triples = {(row["head"], row["relation"], row["tail"]) for row in fusion.graph.triples().to_pylist()}
    assert triples == {("甲病", "症状", "热"), ("乙病", "症状", "咳")}
    assert fusion.held_out == 1
    assert fusion.rejects["reason"].to_list() == ["held_out_pair"]
    # 丙病 was known as a name of the held-out alias only; 甲病 must not get it through 乙病.
    assert not any(fusion.graph.aliases)
