"""Linking finds every fused name in the spelling of any source."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.fusion.fused_graph import fuse
from kg.graph import KnowledgeGraph
from kg.linking.linker import EntityLinker
from kg.linking.surface_forms import forms_of_names
from kg.names import normalise_name


def linker_of(graph: KnowledgeGraph) -> EntityLinker:
    names: dict[str, set[str]] = {}
    for entity, name, aliases in zip(graph.entity_ids, graph.names, graph.aliases, strict=True):
        for spelling in (name, *aliases):
            names.setdefault(spelling, set()).add(entity)
    return EntityLinker(names)


@pytest.mark.parametrize(
    "spellings",
    [
        ("II型糖尿病", "2型糖尿病", "Ⅱ型 糖尿病"),
        ("维生素 B12", "维生素B12", "维生素Ｂ12"),
        ("糖尿病(成人)", "糖尿病【成人】", "糖尿病（成人）"),
        ("抗-HBs", "抗—HBs"),
        ("“三高”症", "三高症"),
        ("肺炎,支气管炎", "肺炎、支气管炎"),
        ("唐氏综合征。", "唐氏综合征"),
    ],
)
def test_linking_finds_every_spelling_of_every_source(spellings: tuple[str, ...]) -> None:
    for order in itertools.permutations(spellings):
        graphs = [
            KnowledgeGraph.from_triples([(name, "症状", "乏力感")], source=f"source{place}")
            for place, name in enumerate(order)
        ]
        graph = fuse(graphs)
        assert graph.num_entities == 2, "one name"
        linker = linker_of(graph)
        wanted = graph.entity_ids[1 - graph.names.index("乏力感")]
        for name in spellings:
            assert linker.link(f"患者{name}三年") == [(2, 2 + len(name), wanted)]


spelled = st.text("Ⅱ2IiiVv型期 B【()】（—-·・“。、,αé❶", min_size=1, max_size=7)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.tuples(spelled, spelled), min_size=1, max_size=4), min_size=1, max_size=3))
def test_every_surface_form_is_kept_exactly_once(said: list[list[tuple[str, str]]]) -> None:
    sources = [
        KnowledgeGraph.from_triples([(head, "症状", tail) for head, tail in pairs if head.strip() and tail.strip()])
        for pairs in said
    ]
    graph = fuse(sources)
    held: dict[str, set[str]] = {}
    for name, aliases in zip(graph.names, graph.aliases, strict=True):
        forms = forms_of_names([name, *aliases])
        assert {normalise_name(alias) for alias in aliases} <= {normalise_name(name)}, "equal names alone meet here"
        assert len(set(forms)) == len(forms), "one spelling a form"
        held[normalise_name(name)] = set(forms)
    for source in sources:
        for name in source.names:
            if value := normalise_name(name):
                assert forms_of_names([name])[0] in held[value]
    assert fuse([graph]) == fuse([*reversed(sources), sources[0]]) == graph
