"""The open benchmark: dropped pairs, disjoint splits, and no query in the graph."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from kg.sources import cmekg, icd10
from tasks.normalise.benchmark import CODE_RELATION, NormalisationBenchmark, build_benchmark, form_of, without_queries
from tasks.normalise.terms.terminology import icd10_entries
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

ENTRIES = [
    Entry("I50", "心力衰竭"),
    Entry("I50.9", "未特指的心力衰竭"),
    Entry("M95", "后天性变形"),
    Entry("J18", "肺炎"),
]


def disease(code: str, *names: str) -> dict[str, list[str]]:
    return {CODE_RELATION: [code], "别称": list(names), "就诊科室": ["内科"]}


def answers(benchmark: NormalisationBenchmark) -> dict[str, tuple[str, ...]]:
    return {mention.text: mention.codes for mention in benchmark.mentions}


def test_names_are_merged_with_the_answers_of_all() -> None:
    found = build_benchmark({"心衰": disease("I50.9", "心功能不全"), "心功能 不全": disease("I50")}, ENTRIES)
    assert answers(found) == {"心功能 不全": ("I50", "I50.9"), "心衰": ("I50.9",)}
    assert len({mention.split for mention in found.mentions}) == 1


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("神经鞘瘤", "M95600/0", "morphology"),
        ("肺病", "J18—J22", "not_one_code"),
        ("肺病", "Z99", "unknown_code"),
        ("肺炎", "I50", "other_term"),
        ("——", "I50", "no_characters"),
    ],
)
def test_dropped_pairs_have_a_reason(name: str, code: str, reason: str) -> None:
    found = build_benchmark({name: disease(code)}, ENTRIES)
    assert not found.mentions
    assert [(own.text, own.cell, own.reason) for own in found.dropped] == [(name, code, reason)]


def test_mention_that_is_the_term_of_its_answer_is_equal() -> None:
    found = build_benchmark({"肺炎": disease("J18", "肺部感染")}, ENTRIES)
    assert {mention.text: mention.is_equal for mention in found.mentions} == {"肺炎": True, "肺部感染": False}


codes = [f"{letter}{number:02}" for letter in "ABC" for number in range(10)]
graphs = st.dictionaries(
    st.text("甲乙丙丁戊己", min_size=1, max_size=4),
    st.tuples(st.sampled_from(codes), st.lists(st.text("甲乙丙丁戊己", min_size=1, max_size=3), max_size=4)),
    max_size=30,
)


@settings(max_examples=40)
@given(graphs)
def test_splits_are_disjoint_and_the_graph_contains_no_query(given_graph: dict) -> None:
    subjects = {name: disease(code, *names) for name, (code, names) in given_graph.items()}
    found = build_benchmark(subjects, [Entry(code, f"术语{code}") for code in codes])
    for split in ("train", "dev", "test"):
        own = {code for mention in found.mentions if mention.split == split for code in mention.codes}
        others = {code for mention in found.mentions if mention.split != split for code in mention.codes}
        assert not own & others
    groups = Counter((mention.split, mention.codes) for mention in found.mentions)
    asked = Counter((mention.split, mention.codes) for mention in found.mentions if mention.is_query)
    assert all(asked[key] == (number if key[0] == "train" else (number + 1) // 2) for key, number in groups.items())
    reduced = without_queries(subjects, found.held_out())
    left = [name for head, own in reduced.items() for name in (head, *own["别称"])]
    assert not found.held_out() & {form_of(form) for form in comparable_forms(left)}
    known = [mention.text for mention in found.mentions if mention.split != "train" and not mention.is_query]
    assert {form_of(form) for form in comparable_forms(known)} <= {form_of(form) for form in comparable_forms(left)}
    assert found == build_benchmark(dict(reversed(subjects.items())), [Entry(code, f"术语{code}") for code in codes])


def test_entity_without_its_own_name_is_called_by_another() -> None:
    subjects = {"心衰": disease("I50", "心 衰", "心功能不全") | {"英文名称": ["heart failure"]}, "肺炎": disease("J18")}
    assert without_queries(subjects, {"心衰", "肺炎"}) == {"心功能不全": {CODE_RELATION: ["I50"], "别称": []}}


def test_foreign_names_of_a_query_are_removed_wherever_they_are_foreign_names() -> None:
    foreign = {"英文名称": ["Heart  Failure", "CHF"]}
    subjects = {
        "心衰": disease("I50", "心功能不全") | foreign,
        "心力衰竭病": disease("I50") | foreign | {"英文别名": ["cardiac failure"]},
        "充血性心衰": disease("I50", "CHF"),
    }
    left = without_queries(subjects, {"心功能不全"})
    assert left["心衰"]["别称"] == []
    assert left["心力衰竭病"]["别称"] == ["cardiac failure"]
    assert left["充血性心衰"]["别称"] == ["CHF"], "as another name of a disease it is kept"
    assert without_queries(subjects, set())["心衰"]["别称"] == ["心功能不全", *foreign["英文名称"]]


def test_real_benchmark() -> None:
    try:
        subjects, entries = cmekg.load(), icd10_entries(*icd10.locate())
    except UserError as error:
        pytest.skip(str(error))
    found = build_benchmark(subjects, entries)
    assert len(found.mentions) > 3_500
    assert min(len(found.queries(split)) for split in ("dev", "test")) > 400
    left = {own.text for own in found.dropped if own.reason == "morphology"}
    assert {"神经鞘瘤", "嗜铬细胞瘤"} <= left
