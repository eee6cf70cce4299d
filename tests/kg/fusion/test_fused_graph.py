"""Fusion joins equal entities, keeps others apart, gives the evidence, and does not depend on any order."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import entity_ids, fuse, fuse_with_evidence
from kg.fusion.vocabularies import Relation, Role, Vocabulary
from kg.graph import KnowledgeGraph
from kg.names import normalise_name

pytestmark = pytest.mark.slow

Triple = tuple[str, str, str]
RELATIONS = ["SameAs", "ICD10", "is_a", "下位关系", "症状", "传染性"]
names = st.sampled_from(
    ["甲病", "乙病", "丙病", "Ⅱ型", "II型", "２型", "A00", "a00.1", "B01", "有", "甲 病", "丁(病)", "丁（病）", "。"]
)
triples = st.lists(st.tuples(names, st.sampled_from(RELATIONS), names), max_size=12)
types = st.dictionaries(names, st.sampled_from(["Disease", "疾病", "Symptom", "Alias"]), max_size=4)
aliases = st.dictionaries(names, st.lists(names, max_size=3), max_size=3)


@st.composite
def graphs(draw: st.DrawFn) -> KnowledgeGraph:
    source = draw(st.sampled_from(["", "cmekg", "icd10", "own"]))
    return KnowledgeGraph.from_triples(draw(triples), source=source, types=draw(types), aliases=draw(aliases))


options = st.builds(
    AlignmentOptions,
    aliases=st.booleans(),
    codes=st.booleans(),
    max_holders=st.integers(2, 4),
    similarity=st.sampled_from([None, None, 0.5]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), max_size=4), options, st.randoms())
def test_order_and_repetition_do_not_matter(
    given_graphs: list[KnowledgeGraph], how: AlignmentOptions, drawn: random.Random
) -> None:
    fused = fuse(given_graphs, how)
    shuffled = drawn.sample(given_graphs, len(given_graphs))
    assert fuse(shuffled, how) == fused
    assert fuse([fused], how) == fused
    assert fuse([fused, fused], how) == fused
    if given_graphs:
        assert fuse([*given_graphs, drawn.choice(given_graphs)], how) == fused


@settings(max_examples=30, deadline=None)
@given(st.lists(graphs(), max_size=3))
def test_no_statement_is_lost_or_invented(given_graphs: list[KnowledgeGraph]) -> None:
    fused = fuse_with_evidence(given_graphs)
    graph = fused.graph
    assert graph.entity_ids == sorted(entity_ids([normalise_name(name) for name in graph.names]))
    bearers: dict[str, set[int]] = {}
    for index, own in enumerate(graph.names):
        for name in (own, *graph.aliases[index]):
            bearers.setdefault(normalise_name(name), set()).add(index)
    vocabulary = Vocabulary.read()
    stated = {
        (int(head), graph.relation_names[relation], int(tail))
        for head, relation, tail in zip(graph.heads, graph.relations, graph.tails, strict=True)
    }
    explained = set()
    for given_graph in given_graphs:
        for head, name, tail in zip(*given_graph.triples().select(["head", "relation", "tail"]), strict=True):
            relation = vocabulary.relation_of("", name.as_py())
            ends = (normalise_name(head.as_py()), normalise_name(tail.as_py()))
            if relation.role == Role.ALIAS:
                assert bearers[ends[0]] & bearers[ends[1]]
                continue
            found = {
                (one, relation.name, other)
                for one in bearers[ends[relation.inverse]]
                for other in bearers[ends[not relation.inverse]]
            }
            collapsed = ends[0] != ends[1] and bearers[ends[0]] & bearers[ends[1]]
            assert found & stated or collapsed
            explained |= found
    assert stated <= explained


def test_statements_about_one_entity_are_merged_with_their_sources() -> None:
    one = KnowledgeGraph.from_triples(
        [("糖尿病", "别称", "消渴症"), ("糖尿病", "症状", "多饮"), ("Ⅱ型糖尿病", "is_a", "糖尿病")],
        source="one",
        types={"糖尿病": "疾病"},
    )
    other = KnowledgeGraph.from_triples(
        [
            ("消渴症", "症状", "多 饮"),
            ("糖尿病", "下位关系", "II型糖尿病（成人）"),
            ("糖尿病", "下位关系", "2型糖尿病"),
        ],
        source="other",
        types={"消渴症": "Disease"},
    )
    graph = fuse([one, other])
    by_name = {name: index for index, name in enumerate(graph.names)}
    diabetes = by_name["糖尿病"]
    assert graph.aliases[diabetes] == ["消渴症"] and graph.types[diabetes] == "Disease"
    assert graph.entities["sources"].to_pylist()[diabetes] == ["one", "other"]
    rows = {(row["head"], row["relation"], row["tail"]): row["sources"] for row in graph.triples().to_pylist()}
    assert rows == {
        ("糖尿病", "症状", "多饮"): ["one", "other"],
        ("2型糖尿病", "上位关系", "糖尿病"): ["one", "other"],
        ("II型糖尿病（成人）", "上位关系", "糖尿病"): ["other"],
    }


def test_cycles_and_chains_of_same_as_are_one_entity() -> None:
    ring = [f"病{number:03}" for number in range(400)]
    cycle = [(name, "SameAs", ring[(place + 1) % len(ring)]) for place, name in enumerate(ring)]
    graph = fuse([KnowledgeGraph.from_triples([*cycle, ("病007", "症状", "咳嗽"), ("病007", "SameAs", "病007")])])
    assert sorted(graph.names) == ["咳嗽", "病007"]
    assert graph.aliases[graph.names.index("病007")] == [name for name in ring if name != "病007"]


def test_alias_of_hundreds_of_entities_joins_none() -> None:
    drugs = [(f"药{number}", "别称", "止痛药") for number in range(300)]
    graph = fuse([KnowledgeGraph.from_triples([*drugs, ("止痛药", "治疗", "头痛")])])
    assert graph.num_entities == 302
    assert sum(aliases == ["止痛药"] for aliases in graph.aliases) == 300


def test_common_alias_joins_graphs_but_not_entities_of_one_graph() -> None:
    one = KnowledgeGraph.from_triples([("甲", "英文名", "Alpha"), ("甲", "症状", "热")])
    other = KnowledgeGraph.from_triples([("甲症", "SameAs_en", "alpha"), ("甲症", "症状", "咳")])
    assert fuse([one, other]).num_entities == 3
    both = KnowledgeGraph.from_triples([("甲", "英文名", "Alpha"), ("甲症", "英文名", "Alpha")])
    assert fuse([both]).num_entities == fuse([both, one]).num_entities - 1 == 2


def test_common_code_joins_only_if_it_belongs_to_one_entity() -> None:
    one = KnowledgeGraph.from_triples([("消渴", "ICD10", "e14.9"), ("乳腺癌", "ICD10", "C50,C50.9")])
    other = KnowledgeGraph.from_triples([("糖尿病", "has_code", "E14.9†"), ("乳房恶性肿瘤", "has_code", "C50")])
    alignments = fuse_with_evidence([one, other]).alignments.to_pylist()
    codes = {(row["name"], row["other_name"], row["value"]) for row in alignments if row["evidence"] == "code"}
    assert codes == {("消渴", "糖尿病", "E14.9"), ("乳房恶性肿瘤", "乳腺癌", "C50")}
    hyponym = KnowledgeGraph.from_triples([("糖尿病", "has_code", "E14.9"), ("糖尿病足", "has_code", "E14.9")])
    assert "code" not in fuse_with_evidence([one, hyponym]).alignments["evidence"].to_pylist()
    assert fuse_with_evidence([one, other], AlignmentOptions(codes=False)).alignments["evidence"].to_pylist() == []


def test_different_types_separate_aliases_and_are_a_conflict_of_equal_names() -> None:
    one, two, three = (
        KnowledgeGraph.from_triples([("发热", "别称", "烧"), ("烧", "治疗", "水")], source=source, types=types)
        for source, types in (
            ("one", {"发热": "症状"}),
            ("two", {"发热": "Disease", "烧": "Disease"}),
            ("three", {"发热": "Symptom"}),
        )
    )
    fused = fuse_with_evidence([one, two, three])
    assert {"发热", "烧"} <= set(fused.graph.names)
    conflicts = [(row["kind"], row["value"], row["sources"]) for row in fused.conflicts.to_pylist()]
    assert conflicts == [("type", "Disease", ["two"]), ("type", "Symptom", ["one", "three"])]


def test_contradicting_values_are_kept_and_listed_with_their_sources() -> None:
    yes = KnowledgeGraph.from_triples([("流感", "传染性", "有"), ("流感", "症状", "热")], source="yes")
    no = KnowledgeGraph.from_triples([("流感", "传染性", "无"), ("流感", "症状", "咳")], source="no")
    fused = fuse_with_evidence([yes, no])
    assert fused.graph.num_triples == 4
    rows = [(row["relation"], row["value"], row["sources"]) for row in fused.conflicts.to_pylist()]
    assert rows == [("传染性", "无", ["no"]), ("传染性", "有", ["yes"])]


def test_similar_names_join_if_enabled_and_neighbours_help() -> None:
    one = KnowledgeGraph.from_triples([("急性支气管炎症", "症状", "咳嗽"), ("胃溃疡", "症状", "腹痛")])
    other = KnowledgeGraph.from_triples([("急性支气管炎", "症状", "咳嗽"), ("口腔溃疡", "症状", "口痛")])
    assert fuse([one, other]).num_entities == 7
    assert fuse([one, other], AlignmentOptions(similarity=0.8)).num_entities == 6
    # Dice of the bigrams is 10 / 11: without the neighbours it does not reach 0.95, with them it does.
    strict = AlignmentOptions(similarity=0.95, overlap_weight=0.0)
    assert fuse([one, other], strict).num_entities == 7
    found = fuse_with_evidence([one, other], AlignmentOptions(similarity=0.95, overlap_weight=0.5)).alignments
    rows = [row for row in found.to_pylist() if row["evidence"] == "similarity"]
    assert [(row["name"], row["other_name"]) for row in rows] == [("急性支气管炎", "急性支气管炎症")]
    assert rows[0]["score"] == pytest.approx(10 / 11 + 0.5 / 11)
    # Within one graph, different names are deliberate.
    whole = KnowledgeGraph.from_triples([("急性支气管炎症", "症状", "咳嗽"), ("急性支气管炎", "症状", "咳嗽")])
    assert fuse([whole], AlignmentOptions(similarity=0.5)).num_entities == 3


def test_invalid_triples_are_rejected_with_the_reason() -> None:
    frame = pl.DataFrame(
        {"head": ["甲", " ", "乙", "丙", "丁"], "relation": ["r", "r", "长" * 201, "长" * 200, ""], "tail": ["乙"] * 5}
    )
    fused = fuse_with_evidence([KnowledgeGraph.from_frame(frame, source="own")])
    assert fused.graph.num_triples == 2 and "" not in fused.graph.names
    assert [(row["source"], row["reason"], row["tail"]) for row in fused.rejects.to_dicts()] == [
        ("own", "empty_name", "乙"),
        ("own", "empty_name", "乙"),
        ("own", "long_relation", "乙"),
    ]


def test_collapsed_triples_are_counted_and_true_loops_kept() -> None:
    graph = KnowledgeGraph.from_triples([("甲", "别称", "乙"), ("乙", "并发症", "甲"), ("丙", "并发症", "丙")])
    fused = fuse_with_evidence([graph])
    assert fused.collapsed == 1 and fused.graph.num_triples == 1


def test_user_tables_map_types_and_relations() -> None:
    vocabulary = Vocabulary(
        types={("", "X"): "Y", ("two", "X"): "Z"},
        relations={("", "故"): Relation("病因"), ("", "弃"): Relation("弃", Role.IGNORE)},
    )
    triples: list[Triple] = [("甲", "故", "乙"), ("甲", "弃", "乙"), ("甲", "别称", "乙")]
    one, two = (KnowledgeGraph.from_triples(triples, source=name, types={name: "X"}) for name in ("one", "two"))
    graph = fuse([one, two], vocabulary=vocabulary)
    assert graph.relation_names == ["别称", "病因"]
    assert dict(zip(graph.names, graph.types, strict=True)) == {"甲": "", "乙": "", "one": "Y", "two": "Z"}


def test_ids_depend_only_on_the_name() -> None:
    graph = fuse([KnowledgeGraph.from_triples([("Ⅱ型糖尿病", "r", "甲")])])
    assert set(graph.entity_ids) == set(entity_ids(["2型糖尿病", "甲"]))
    assert entity_ids(["2型糖尿病"]) == ["ed8edf53b070bed4"]


def test_no_graphs_fuse_to_an_empty_graph() -> None:
    assert fuse([]).num_entities == fuse([KnowledgeGraph.from_triples([])]).num_entities == 0
