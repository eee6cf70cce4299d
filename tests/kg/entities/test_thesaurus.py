"""The thesaurus: small connected components, separate types, ambiguity, any order."""

from __future__ import annotations

from collections import defaultdict

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.entities.thesaurus import Named, Synonym, build_thesaurus

CATARACT = Named("D1", "白内障", ["晶状体混浊"], "disease")


def groups_of(rows: list[Synonym]) -> dict[str, dict[str, bool]]:
    """Return the surfaces of each group and whether they are ambiguous."""
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for row in rows:
        found[row.group_id][row.surface] = row.ambiguous
    return dict(found)


def test_case_of_the_paper() -> None:
    assert build_thesaurus([CATARACT]) == [
        Synonym("D1", "D1", "晶状体混浊", "disease", False),
        Synonym("D1", "D1", "白内障", "disease", False),
    ]


def test_aliases_of_aliases_are_in_one_group() -> None:
    rows = build_thesaurus(
        [
            Named("D3", "消渴", [], "disease"),
            Named("D1", "糖尿病", ["消渴"], "disease"),
            Named("D2", "消渴症", ["消渴", " 消渴病 "], "disease"),
        ]
    )
    assert groups_of(rows) == {"D1": dict.fromkeys(["消渴", "消渴症", "消渴病", "糖尿病"], False)}
    assert {row.surface: row.entity_id for row in rows} == {
        "消渴": "D3",
        "消渴症": "D2",
        "消渴病": "D2",
        "糖尿病": "D1",
    }


def test_alias_of_several_entities_that_is_nobodys_name_is_ambiguous() -> None:
    rows = build_thesaurus([Named("D1", "肺结核", ["痨病"]), Named("D2", "骨结核", ["痨病"])])
    assert groups_of(rows) == {"D1": {"痨病": True, "肺结核": False, "骨结核": False}}


def test_types_stay_apart_and_shared_surfaces_are_ambiguous() -> None:
    rows = build_thesaurus([Named("D1", "黄疸", ["目黄"], "disease"), Named("S1", "黄疸", ["身黄"], "symptom")])
    assert groups_of(rows) == {"D1": {"目黄": False, "黄疸": True}, "S1": {"身黄": False, "黄疸": True}}
    assert {(row.group_id, row.type) for row in rows} == {("D1", "disease"), ("S1", "symptom")}


def test_single_entity_of_another_type_makes_a_surface_ambiguous() -> None:
    rows = build_thesaurus([CATARACT, Named("S1", "白内障", [], "symptom")])
    assert groups_of(rows) == {"D1": {"晶状体混浊": False, "白内障": True}}


def test_too_large_a_group_is_split() -> None:
    chain = [Named(f"E{number}", f"名{number}", [f"名{number + 1}"]) for number in range(1, 5)]
    assert list(groups_of(build_thesaurus(chain, max_size=5))) == ["E1"]
    assert groups_of(build_thesaurus(chain, max_size=4)) == {
        "E1": {"名1": False, "名2": True},
        "E2": {"名2": True, "名3": True},
        "E3": {"名3": True, "名4": True},
        "E4": {"名4": True, "名5": False},
    }


def test_entity_keeps_all_its_names() -> None:
    rows = build_thesaurus([Named("E1", "海金沙草", [f"别名{number}" for number in range(9)])], max_size=3)
    assert len(rows) == 10


def test_circular_repeated_and_own_aliases_do_no_harm() -> None:
    circle = [Named("A", "甲", ["乙", "甲", ""]), Named("B", "乙", ["丙"]), Named("C", "丙", ["甲", "甲"])]
    assert groups_of(build_thesaurus([*circle, *circle])) == {"A": {"甲": False, "乙": False, "丙": False}}


def test_entity_without_synonyms_is_left_out() -> None:
    assert build_thesaurus([Named("D1", "头痛", []), Named("D2", "", ["咳嗽"]), Named("D3", "发热", ["发热"])]) == []
    assert build_thesaurus([]) == []


def test_invalid_input_is_rejected() -> None:
    with pytest.raises(ValueError, match="max_size=1"):
        build_thesaurus([CATARACT], max_size=1)
    with pytest.raises(ValueError, match="D1 has the types"):
        build_thesaurus([CATARACT, CATARACT._replace(type="symptom")])


names = st.sampled_from("甲乙丙丁戊己庚辛")
entities = st.lists(
    st.builds(Named, st.sampled_from("ABCDEFGH"), names, st.lists(names, max_size=3), st.sampled_from(["d", "s"])),
    max_size=9,
    unique_by=lambda entity: entity.entity_id,
)


@settings(max_examples=300, deadline=None)
@given(entities, st.integers(2, 6), st.randoms(use_true_random=False))
def test_groups_are_connected_components(given_: list[Named], max_size: int, drawn: object) -> None:
    rows = build_thesaurus(given_, max_size)
    graph = networkx.Graph()
    for entity in given_:
        for surface in {entity.name, *entity.aliases}:
            graph.add_edge(("entity", entity.entity_id), (entity.type, surface))
    expected: dict[str, set[str]] = {}
    for component in networkx.connected_components(graph):
        ids = sorted(value for kind, value in component if kind == "entity")
        surfaces = {value for kind, value in component if kind != "entity"}
        if len(surfaces) <= max_size:
            expected[ids[0]] = surfaces
        else:
            expected |= {each: {value for _, value in graph["entity", each]} for each in ids}
    assert {group: set(found) for group, found in groups_of(rows).items()} == {
        group: surfaces for group, surfaces in expected.items() if len(surfaces) > 1
    }
    holders = defaultdict(set)
    for group, surfaces in expected.items():
        for surface in surfaces:
            holders[surface].add(group)
    called = {entity.name for entity in given_}
    for row in rows:
        aliased = sum(row.surface in entity.aliases and row.surface != entity.name for entity in given_)
        assert row.ambiguous == (len(holders[row.surface]) > 1 or (aliased > 1 and row.surface not in called))
    shuffled = drawn.sample(given_, len(given_))  # type: ignore[attr-defined]
    turned = [entity._replace(aliases=[*entity.aliases][::-1]) for entity in shuffled]
    assert build_thesaurus(turned, max_size) == rows
    assert rows == sorted(rows) and len({(row.group_id, row.surface) for row in rows}) == len(rows)
