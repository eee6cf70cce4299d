"""Queries of diagnoses: typos, abbreviations, compounds; and how candidates are merged."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.normalise.queries.candidates import AT_ONCE, candidates, find
from tasks.normalise.queries.compounds import JOINTS, Joint, parts_of
from tasks.normalise.queries.rules import ABBREVIATIONS, MAX_PARTS, MAX_QUERIES, TYPOS, QueryRules
from tasks.normalise.queries.settings import QueryParams, load_rules, read_rules, save_rules
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import comparable_forms
from tasks.retrieve.icd_categories import categories_of

RULES = QueryRules.read()


def queries(diagnosis: str, rules: QueryRules = RULES) -> list[str]:
    (found,) = rules.queries([diagnosis])
    return found


@pytest.mark.parametrize(
    ("diagnosis", "expected"),
    [
        ("COPD急性加重", "慢性阻塞性肺病急性加重"),
        ("冠心病", "冠状动脉粥样硬化性心脏病"),
        ("急性STEMI", "急性st段抬高型心肌梗死"),  # not 急性急性ST段抬高型心肌梗死
        ("胃癌", "胃恶性肿瘤"),
        ("Ⅱ型糖尿并", "2型糖尿病"),
        ("肠易激综合症", "肠易激综合征"),
        ("支气管哮踹（轻度）", "支气管哮喘"),
        ("高血压", "特发性(原发性)高血压"),
    ],
)
def test_diagnosis_is_spelled_out(diagnosis: str, expected: str) -> None:
    found = queries(diagnosis)
    assert expected in found[1:]
    assert comparable_forms([found[0]]) == comparable_forms([diagnosis])


@pytest.mark.parametrize(
    ("diagnosis", "unchanged"),
    [
        ("类风湿性关节炎", "类风湿"),  # the short form is part of its expansion
        ("COPDX试验", "more Latin letters follow"),
        ("高血压性脑病", "only as a whole"),
        ("癌前病变", "only at the end"),
    ],
)
def test_text_that_only_looks_like_a_short_form_is_kept(diagnosis: str, unchanged: str) -> None:
    assert [query.upper() for query in queries(diagnosis)] == [diagnosis], unchanged


@pytest.mark.parametrize(
    ("diagnosis", "parts"),
    [
        ("肺炎伴胸膜炎", ["肺炎", "胸膜炎"]),
        ("肺炎及胸膜炎", ["肺炎", "胸膜炎"]),
        ("肺炎、肾炎、胃炎", ["肺炎", "肾炎", "胃炎"]),
        ("肺炎+肾炎", ["肺炎", "肾炎"]),
        ("肺炎合并肾炎", ["肺炎", "肾炎"]),
        ("肺炎并胃炎", ["肺炎", "胃炎"]),
        ("1.肺炎 2.肾炎\n3、胃炎", ["肺炎", "肾炎", "胃炎"]),
        ("（1）肺炎；（2）肾炎", ["肺炎", "肾炎"]),
        ("房颤、胃炎", ["房颤", "胃炎"]),
        ("痛风和肺炎", ["痛风", "肺炎"]),
        ("休克，肺炎", ["休克", "肺炎"]),
        ("胃息肉及胃炎", ["胃息肉", "胃炎"]),
        ("低血压3级、胃炎", ["低血压3级", "胃炎"]),
        ("肺癌术后、低血压", ["肺癌术后", "低血压"]),
        ("膈疝,伴有肺炎", ["膈疝", "肺炎"]),
        ("1.低血压 2.2型糖尿病", ["低血压", "2型糖尿病"]),
        ("低血压，2型糖尿病", ["低血压", "2型糖尿病"]),
        ("肺炎/胃炎+肾炎", ["肺炎", "胃炎", "肾炎"]),
        ("1、低血压 2、2型糖尿病", ["低血压", "2型糖尿病"]),
        ("1.痔 2.肺炎；疝", ["痔", "肺炎", "疝"]),
        ("1.肺炎 2.3级低血压", ["肺炎", "3级低血压"]),
    ],
)
def test_compounds_are_cut(diagnosis: str, parts: list[str]) -> None:
    found = queries(diagnosis, QueryRules())
    assert found[1:] == parts
    assert QueryRules().parts([diagnosis]) == [len(parts)]


@pytest.mark.parametrize(
    "diagnosis",
    [
        "肝及胆囊结石",
        "上、下肢骨折",
        "肺炎并发症",
        "并指畸形",
        "胸膜炎累及肺",
        "饱和脂肪过多",
        "A+B",
        "第1.5度烧伤",
        "肺炎(左肺及右肺,轻度+重度)",
        "脑血管和神经",
        "脑血管和神经损伤",
        "压疮 2、3期",
        "1.5度烧伤",
        "颈动脉闭塞和狭窄",
        "先天性缺如,闭锁和狭窄",
        "惊厥，不可归类在他处者",
        "溃疡，不伴有出血",
        "唇裂伴或不伴有腭裂",
        "精神分裂症，偏执型",
        "急性胰腺炎，胆源性",
        "白内障,右眼",
        "肝硬化，失代偿期",
        "腰4/5椎间盘突出",
        "妊娠39+2周",
    ],
)
def test_single_disease_is_not_cut(diagnosis: str) -> None:
    rules = QueryRules(notes=False)
    assert len(queries(diagnosis, rules)) == 1


@pytest.mark.parametrize("joint", JOINTS, ids=lambda joint: joint.pattern)
def test_examples_of_joints_hold(joint: Joint) -> None:
    assert re.search(joint.pattern, joint.cut) and len(parts_of(joint.cut)) == 2
    assert parts_of(joint.whole) == []


def test_disabled_rules_are_not_applied() -> None:
    diagnosis = "心衰(左侧)伴COPD"
    assert queries(diagnosis, QueryRules(notes=False, split=False)) == ["心衰(左侧)伴copd"]
    assert queries(diagnosis, QueryRules(split=False)) == ["心衰(左侧)伴copd", "心衰伴copd"]
    assert queries(diagnosis, QueryRules()) == ["心衰(左侧)伴copd", "心衰伴copd", "心衰", "copd"]
    assert (QueryRules().parts([diagnosis]), QueryRules(split=False).parts([diagnosis])) == ([2], [1])


@pytest.mark.parametrize("off", ["abbreviations", "typos", "notes", "split"])
def test_rules_round_trip(tmp_path: Path, off: str) -> None:
    rules = read_rules(QueryParams(**{off: False}), {})
    save_rules(rules, tmp_path)
    diagnoses = ["心衰(左侧)伴COPD", "支气管哮踹（轻度）", "肺炎及胸膜炎"]
    assert load_rules(tmp_path).queries(diagnoses) == rules.queries(diagnoses) != RULES.queries(diagnoses)
    assert load_rules(tmp_path / "no such").queries(diagnoses) == RULES.queries(diagnoses)


def test_several_expansions_are_several_queries() -> None:
    rules = QueryRules(
        [("dm", "糖尿病", "anywhere"), ("dm", "皮肌炎", "anywhere"), ("肾衰", "肾衰竭", "end")], split=False
    )
    assert queries("DM肾衰", rules) == ["dm肾衰", "糖尿病肾衰", "皮肌炎肾衰", "dm肾衰竭"]


def test_short_forms_are_expanded_only_at_their_place() -> None:
    rules = QueryRules(
        [("甲", "甲状腺", "anywhere"), ("癌", "恶性肿瘤", "end"), ("血", "血友病", "whole")], split=False
    )
    assert queries("甲", rules) == ["甲", "甲状腺"]
    assert queries("甲炎", rules) == ["甲炎", "甲状腺炎"]
    assert queries("胃癌", rules) == ["胃癌", "胃恶性肿瘤"]
    assert queries("癌", rules) == ["癌"] and queries("癌前病变", rules) == ["癌前病变"]
    assert queries("血", rules) == ["血", "血友病"]
    assert queries("出血", rules) == ["出血"] and queries("血尿", rules) == ["血尿"]


@pytest.mark.parametrize("diagnosis", ["", " ", "！？", "()", "\ud800"])
def test_text_without_searchable_characters_has_no_query(diagnosis: str) -> None:
    assert queries(diagnosis) == []


def test_number_of_queries_of_a_long_text_is_limited() -> None:
    found = queries("肺炎伴胸膜炎，" * 2_000)
    assert len(found) <= MAX_QUERIES
    assert {"肺炎", "胸膜炎"} <= set(found)
    assert max(map(len, found)) <= 2_000
    meanings = QueryRules([("dm", f"{first}{second}病", "anywhere") for first in "肺胃肝肾脑" for second in "炎癌"])
    assert len(queries("DM", meanings)) == 8
    assert len(queries("DM伴肠梗阻", meanings)) == 12  # two more for each part


def test_every_counted_part_is_a_query() -> None:
    diseases = [f"{organ}{kind}" for organ in "肺胃肝肾脑心脾肠" for kind in ("炎", "癌", "结石", "脓肿")]
    for number in (2, 10, len(diseases)):
        (found,), (parts,) = (ask([("；".join(diseases[:number]))]) for ask in (RULES.queries, RULES.parts))
        assert parts == min(number, MAX_PARTS)
        spelled = QueryRules.read(split=False).queries(diseases[:parts])
        assert all(own[-1] in found for own in spelled)
        assert len(found) <= MAX_QUERIES
    assert RULES.parts(["肺炎+肺炎", "肺炎+胃癌+肺炎", "心衰、心力衰竭"]) == [1, 2, 1]


@given(st.lists(st.text("肺炎伴及、+,（）()1.2 COPD心衰癌", max_size=30), max_size=4))
def test_queries_are_distinct_and_begin_with_the_whole(diagnoses: list[str]) -> None:
    for diagnosis, found in zip(diagnoses, RULES.queries(diagnoses), strict=True):
        assert found == queries(diagnosis)
        assert len(found) <= MAX_QUERIES
        forms = comparable_forms(found)
        assert all(forms) and len(set(forms)) == len(forms)
        assert bool(found) == any(character.isalnum() for character in diagnosis)


@pytest.mark.parametrize("path", [ABBREVIATIONS, TYPOS])
def test_default_tables_have_no_repeated_or_empty_entries(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row[:2] for row in list(csv.reader(file))[1:]]
    assert len(rows) >= 80
    assert all(one != other and one and other for one, other in rows)
    assert len({tuple(row) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("short,expansion\na,b\n", "lacks the columns"),
        ("short,expansion,place\na,b,start\n", "row 2: place 'start'"),
        ("short,expansion,place\na,,end\n", "row 2 has an empty cell"),
        ("short,expansion,place\nb,c,end\n\u201d,a,end\n", "row 3: '\u201d' contains no searchable characters"),
    ],
)
def test_invalid_table_error_names_the_row(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "own.csv"
    table.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        QueryRules.read(abbreviations=table)


class Fixed:
    """An index with fixed results."""

    def __init__(self, answers: dict[str, Sequence[str]]) -> None:
        self.answers = answers

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        return [
            [Candidate(code, code, float(9 - place)) for place, code in enumerate(self.answers.get(term, ""))][:k]
            for term in terms
        ]


def test_candidates_of_queries_take_turns() -> None:
    index = Fixed({"肺炎伴肾炎": "ABCDE", "肺炎": "XYZ", "肾炎": "AUV"})
    (found,) = candidates(index, ["肺炎伴肾炎"], 7, QueryRules())
    assert [one.code for one in found] == ["A", "X", "B", "Y", "U", "C", "Z"]
    assert found[0].score == 9.0
    assert [len(own) for own in candidates(index, ["肺炎伴肾炎", "", "未知"], 2, QueryRules())] == [2, 0, 0]


@pytest.mark.parametrize(
    ("term", "of_parts"),
    [
        ("肺炎伴有肾炎", ["肺炎伴有肾炎"]),
        ("肺炎不伴有肾炎", ["肺炎", "肾炎"]),
        ("肺炎，除外肾炎", ["肺炎", "肾炎"]),
        ("肺炎，未提及肾炎", ["肺炎", "肾炎"]),
        ("肺炎，非由肾炎引起", ["肺炎", "肾炎"]),
        ("肺炎", ["肺炎", "肾炎"]),
    ],
)
def test_term_that_excludes_a_part_is_not_the_compound(term: str, of_parts: list[str]) -> None:
    index = Fixed({"肺炎伴肾炎": [term], "肺炎": ["肺炎"], "肾炎": ["肾炎"]})
    (found,) = find(index, ["肺炎伴肾炎"], 5, QueryRules())
    assert [one.term for one in found.of_parts] == of_parts
    assert found.found_parts == (() if term == "肺炎伴有肾炎" else ("肺炎", "肾炎"))


def test_batches_do_not_change_the_candidates() -> None:
    index = Fixed({"肺炎": "ABC", "肾炎": "XYZ", "肺炎伴肾炎": "A"})
    diagnoses = ["肺炎", "", "肺炎伴肾炎", "肾炎"] * (AT_ONCE // 4 + 1)
    rules = QueryRules()
    assert candidates(index, diagnoses, 3, rules) == [candidates(index, [one], 3, rules)[0] for one in diagnoses]


def test_last_places_go_to_siblings() -> None:
    entries = [Entry(f"J18.{digit}", f"J18.{digit}") for digit in range(10)] + [Entry("无", "无码")]
    others = [f"A{number:02}" for number in range(20)]
    (found,) = candidates(Fixed({"肺炎": ["J18.3", *others]}), ["肺炎"], 10, QueryRules(), categories_of(entries))
    assert [one.code for one in found[:7]] == ["J18.3", *others[:6]]
    assert found[7:] == [Candidate(f"J18.{digit}", f"J18.{digit}", 0.0) for digit in (0, 1, 2)]


def test_without_siblings_all_places_go_to_found_candidates() -> None:
    (found,) = candidates(
        Fixed({"肺炎": "abcdefghij"}), ["肺炎"], 10, QueryRules(), categories_of([Entry("J18", "肺炎")])
    )
    assert [one.code for one in found] == list("abcdefghij")


def test_compound_finds_both_diseases(tmp_path: Path) -> None:
    entries = [
        Entry("J44", "慢性阻塞性肺病"),
        Entry("I50", "心力衰竭"),
        Entry("E11", "2型糖尿病"),
        Entry("L40", "银屑病"),
    ]
    index = EmbeddedIndex.build(entries, tmp_path)
    found = candidates(index, ["COPD并心衰", "牛皮癣", "Ⅱ型糖尿并"], 2)
    assert {one.code for one in found[0]} == {"J44", "I50"}
    assert [own[0].code for own in found[1:]] == ["L40", "E11"]
