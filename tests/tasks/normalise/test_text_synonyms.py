"""Synonyms that text states: extraction, counts, and their use in a term list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.normalise import normalise
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.terms.terminology import TerminologyParams, entries_of, pairs_in, terminology
from tasks.normalise.terms.text_names import with_text_names
from tasks.normalise.terms.text_synonyms import (
    MAX_NAME,
    TextSynonymsParams,
    count_definitions,
    definitions,
    text_synonyms,
)
from tasks.retrieve.candidates import Entry
from tests.support.text.tables import documents_artifact


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("面神经麻痹，又称面瘫或贝尔氏面瘫。", [("面神经麻痹", "面瘫"), ("面神经麻痹", "贝尔氏面瘫")]),
        ("患者得了尖锐湿疣（俗称“菜花病”），", [("尖锐湿疣", "菜花病")]),
        ("子宫颈腺潴留囊肿也称为纳博特囊肿", [("子宫颈腺潴留囊肿", "纳博特囊肿")]),
        ("癫痫也就是人们常说的羊角风。", [("癫痫", "羊角风")]),
        ("“腕管综合征”俗名：鼠标手、妈妈手", [("腕管综合征", "鼠标手"), ("腕管综合征", "妈妈手")]),
        ("带状疱疹中医称之为“蛇串疮”", [("带状疱疹", "蛇串疮")]),
        ("甲亢学名是甲状腺功能亢进症", [("甲亢", "甲状腺功能亢进症")]),
        ("你这是荨麻疹，又叫做风疹块的一种皮肤病", [("荨麻疹", "风疹块")]),
        ("毒性弥漫性甲状腺肿(又称Graves病)", [("毒性弥漫性甲状腺肿", "Graves病")]),
        ("麦粒肿又名针眼，俗称偷针眼", [("麦粒肿", "针眼"), ("麦粒肿", "偷针眼")]),
        ("麦粒肿又名针眼俗称“偷针眼”", [("麦粒肿", "针眼"), ("麦粒肿", "偷针眼")]),
        ("麦粒肿又名针眼。痤疮俗称青春痘", [("麦粒肿", "针眼"), ("痤疮", "青春痘")]),
    ],
)
def test_announced_names_are_found(text: str, pairs: list[tuple[str, str]]) -> None:
    assert list(definitions(text)) == pairs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "又称",
        "又称面瘫",
        "面瘫又称",
        "面瘫。又称贝尔氏面瘫",
        "面瘫又称。贝尔氏面瘫",
        "肝硬化（失代偿期）",
        "应立即去医院",
        "面瘫又称面瘫",
        "它又称为什么",
        "癌又称瘤",
        "又称" * 5_000,
        "面瘫又称？",
        "\ud800又称\udfff",
    ],
)
def test_text_without_a_statement_gives_no_pair(text: str) -> None:
    assert list(definitions(text)) == []


def test_long_run_is_cut_at_its_known_border() -> None:
    found = list(definitions(f"{'甲' * 500}又称{'乙' * 500}"))
    assert found == [("甲" * MAX_NAME, "乙" * MAX_NAME)]


NAMES = st.text("脑肺胃肝肾炎癌瘤囊肿硬化症A1", min_size=2, max_size=MAX_NAME)
CUES = st.sampled_from(
    ["又称", "又名", "也叫做", "俗称", "亦称为", "（又称", "，别名：", "，也就是我们常说的", "简称“"]
)


@given(st.lists(st.tuples(NAMES, CUES, NAMES), max_size=5))
def test_every_statement_is_found(statements: list[tuple[str, str, str]]) -> None:
    text = "".join(f"医生说，{one}{cue}{other}。其实不然！" for one, cue, other in statements)
    assert list(definitions(text)) == [(one, other) for one, _, other in statements if one != other]


@given(st.text("面瘫又称俗名也叫、或（）“”，。-的是A ", max_size=60))
def test_names_are_bounded_parts_of_the_text(text: str) -> None:
    for pair in definitions(text):
        for name in pair:
            assert 2 <= len(name) <= MAX_NAME
            assert name in text


def test_pair_counts_once_per_document() -> None:
    texts = ["癫痫又称羊角风。癫痫又称羊角风。", "癫痫又称羊角风", "癫痫俗称羊癫疯"]
    assert count_definitions(texts) == {("癫痫", "羊角风"): 2, ("癫痫", "羊癫疯"): 1}


def mined(store: ArtifactStore, *parts: list[str]) -> Artifact:
    documents = documents_artifact(store, *parts)
    return run(text_synonyms, store, TextSynonymsParams(), {"documents": documents}).artifact


def test_counts_do_not_depend_on_the_number_of_parts(store: ArtifactStore) -> None:
    texts = ["癫痫又称羊角风", "无关", "癫痫又称羊角风", "痤疮俗称青春痘"]
    apart, together = mined(store, texts[:1], texts[1:]), mined(store, texts)
    assert pairs_in(apart) == pairs_in(together) == dict(count_definitions(texts))
    assert apart.rows("text_synonyms") == 3
    assert together.to_table("text_synonyms").to_pylist()[0] == {
        "name": "痤疮",
        "synonym": "青春痘",
        "source": "article",
        "documents": 1,
    }
    assert together.manifest.counters == {"documents_in": 4, "definitions": 3}


def test_documents_without_statements_give_an_empty_table(store: ArtifactStore) -> None:
    empty = mined(store, ["无关"])
    assert (empty.rows("text_synonyms"), pairs_in(empty)) == (0, {})


ENTRIES = [Entry("G40", "癫痫", ("epilepsy",)), Entry("L70", "痤疮"), Entry("L70.9", "未特指的痤疮", ("痤疮",))]


@pytest.mark.parametrize(
    ("pairs", "names", "count"),
    [
        ({("癫痫", "羊角风"): 1}, ["羊角风"], {"text_names_added": 1}),
        ({("羊角风", "癫 痫"): 1}, ["羊角风"], {"text_names_added": 1}),
        ({("Epilepsy", "羊角风"): 1}, ["羊角风"], {"text_names_added": 1}),
        ({("羊角风", "羊癫疯"): 1}, [], {"text_pairs_of_unknown_names": 1}),
        ({("癫痫", "羊角风"): 1, ("羊角风", "羊癫疯"): 1}, ["羊角风"], {"text_pairs_of_unknown_names": 1}),
        ({("癫痫", "痤疮"): 9}, [], {"text_pairs_already_known": 1}),
        ({("癫痫", "——"): 9}, [], {"text_names_added": 0}),
        ({}, [], {"text_names_added": 0}),
    ],
)
def test_name_is_learned_from_a_known_one(
    pairs: dict[tuple[str, str], int], names: list[str], count: dict[str, int]
) -> None:
    richer, counts = with_text_names(ENTRIES, pairs, max_codes=2)
    assert sorted(set(richer[0].aliases) - set(ENTRIES[0].aliases)) == names
    assert richer[1:] == ENTRIES[1:]
    assert {key: counts[key] for key in count} == count


def test_ambiguous_name_is_ignored() -> None:
    pairs = {("痤疮", "粉刺"): 1}
    assert [entry.aliases for entry in with_text_names(ENTRIES, pairs, 2)[0][1:]] == [("粉刺",), ("痤疮", "粉刺")]
    richer, counts = with_text_names(ENTRIES, pairs, 1)
    assert (richer, counts["text_pairs_of_many_terms"]) == (ENTRIES, 1)
    richer, counts = with_text_names(ENTRIES, {("痤疮", "皮病"): 1, ("癫痫", "皮病"): 1}, 2)
    assert (richer, counts["text_names_of_many_terms"]) == (ENTRIES, 1)


def test_orders_and_spellings_of_a_pair_count_together() -> None:
    pairs = {("癫痫", "WPW"): 1, ("wpw", "癫痫"): 1}
    assert with_text_names(ENTRIES, pairs, 3, min_documents=2)[0][0].aliases == ("epilepsy", "wpw")
    assert with_text_names(ENTRIES, pairs, 3, min_documents=3)[0] == ENTRIES


@given(
    st.dictionaries(
        st.tuples(st.text("甲乙丙丁", min_size=1, max_size=2), st.text("甲乙丙丁", max_size=2)), st.just(1)
    ),
    st.lists(st.text("甲乙丙", min_size=1, max_size=2), min_size=1, max_size=4, unique=True),
)
def test_text_adds_only_new_names(pairs: dict[tuple[str, str], int], terms: list[str]) -> None:
    entries = [Entry(str(place), term) for place, term in enumerate(terms)]
    richer, counts = with_text_names(entries, pairs, 3)
    added = [set(new.aliases) for new in richer]
    assert [(new.code, new.term) for new in richer] == [(old.code, old.term) for old in entries]
    assert not set().union(*added) & set(terms)
    assert sum(map(len, added)) == counts["text_names_added"]
    assert with_text_names(entries, dict(reversed(pairs.items())), 3) == (richer, counts)
    stated = {frozenset(pair) for pair in pairs}
    for term, own in zip(terms, added, strict=True):
        assert all(frozenset((term, name)) in stated for name in own)


def test_stage_adds_names_from_text(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("编码,名称\nG40.900,癫痫\n", encoding="utf-8")
    names = mined(store, ["癫痫又称羊角风", "癫痫俗称羊癫疯"], ["癫痫又称羊角风"])
    inputs = {"list": RawInput(file), "synonyms": names}
    both = run(terminology, store, TerminologyParams(format="list"), inputs).artifact
    assert entries_of(both) == [Entry("G40.900", "癫痫", ("羊癫疯", "羊角风"), ("text", "text"))]
    assert both.manifest.counters["text_names_added"] == 2
    sure = run(terminology, store, TerminologyParams(format="list", min_documents=2), inputs).artifact
    assert entries_of(sure) == [Entry("G40.900", "癫痫", ("羊角风",), ("text",))]


def test_flow_finds_a_diagnosis_by_a_name_from_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")  # no Ray for a handful of lines
    monkeypatch.delenv("ELASTICSEARCH_URL", raising=False)
    (tmp_path / "list.csv").write_text("编码,名称\nB02.900,带状疱疹\nJ18.900,肺炎\n", encoding="utf-8")
    (tmp_path / "note.txt").write_text("带状疱疹中医称为“蛇串疮”，是病毒引起的皮肤病。", encoding="utf-8")
    given = {"rank": False, "synonyms": False, "terms": str(tmp_path / "list.csv")}
    without = Normaliser(normalise.fn(**given)).normalise(["蛇串疮"])
    assert "蛇串疮" not in [match.name for match in without[0].matches if match]
    with_text = Normaliser(normalise.fn(**given, text=str(tmp_path / "note.txt"))).normalise(["蛇串疮"])
    assert [one.code for one in with_text[0].terms] == ["B02.900"]
    assert [(match.name, match.source) for match in with_text[0].matches if match] == [("蛇串疮", "text")]
    with pytest.raises(UserError, match=r"absent does not exist"):
        normalise.fn(**given, text=str(tmp_path / "absent"))
