"""Dialogues keep their turns, and sources are set by rows, parameters and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.errors import UserError
from tasks.ingest.dialogues import dialogue_text
from tasks.ingest.stage import IngestParams
from tests.support.text.reading import ingested, jsonl, metas, parquet, rejects, table
from tests.support.text.stages import texts_of

TURNS = [
    {"role": "user", "content": "头痛\r\n三天"},
    {"role": "assistant", "content": "发热吗？"},
    {"role": "user", "content": " "},
]
TEXT = "患者：头痛 三天\n医生：发热吗？"


@pytest.mark.parametrize("field", ["turns", "dialogue", "messages", "conversations", "conversation", "对话"])
def test_a_list_of_turns_becomes_one_document(tmp_path: Path, field: str) -> None:
    artifact = ingested(tmp_path, {"a.jsonl": jsonl([{field: TURNS, "title": "问诊", "科室": "内科"}])})
    (document,) = artifact.to_table("documents").to_pylist()
    assert (document["text"], document["title"], document["source"]) == (TEXT, "问诊", "dialogue")
    assert metas(artifact) == [{"file": "a.jsonl", "row": 1, "turns": 2, "科室": "内科"}]


@pytest.mark.parametrize("make", [parquet, lambda rows: table([{"turns": __import__("json").dumps(rows[0]["turns"])}])])
def test_tables_may_contain_turns(tmp_path: Path, make: Any) -> None:
    name = "a.parquet" if make is parquet else "a.csv"
    assert texts_of(ingested(tmp_path, {name: make([{"turns": TURNS}])})) == [TEXT]


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        (["医生：你好", " ", "患者：您好"], "医生：你好\n患者：您好"),
        ([{"from": "human", "value": "甲"}, {"from": "gpt", "value": "乙"}], "患者：甲\n医生：乙"),
        ([{"说话人": "病人", "内容": "甲"}, {"角色": "护士", "内容": "乙"}], "患者：甲\n护士：乙"),
        ([{"speaker": "Doctor ", "utterance": "甲"}, {"sentence": "乙"}], "医生：甲\n乙"),
        ([{"role": "client", "text": None}, {"role": "counselor", "text": "乙"}], "医生：乙"),
    ],
)
def test_speakers_and_texts_have_many_names(turns: list[Any], text: str) -> None:
    assert dialogue_text(turns, {}) == (text, text.count("\n") + 1)


def test_roles_can_be_set(tmp_path: Path) -> None:
    rows = [{"log": TURNS, "text": "别的"}]
    artifact = ingested(tmp_path, {"a.jsonl": jsonl(rows)}, turns_field="log", roles={"User": "来访者"})
    assert texts_of(artifact) == ["来访者：头痛 三天\n医生：发热吗？"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"turns": [5]}, "malformed_turns"),
        ({"turns": [{"role": "user"}]}, "malformed_turns"),
        ({"turns": [{"role": "user", "content": ["甲"]}]}, "malformed_turns"),
        ({"turns": [["user", "甲"]]}, "malformed_turns"),
        ({"turns": []}, "empty_text"),
        ({"turns": ["", {"content": " \n"}]}, "empty_text"),
        ({"turns": "一句话"}, "missing_text"),
    ],
)
def test_malformed_turns_are_rejected(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    artifact = ingested(tmp_path, {"a.jsonl": jsonl([row, {"text": "好"}])})
    assert texts_of(artifact) == ["好"]
    assert rejects(artifact) == {"a.jsonl#1": reason}


def test_a_named_field_of_turns_must_contain_a_list(tmp_path: Path) -> None:
    rows = [{"log": "一句话"}, {"log": None, "text": "甲"}, {"log": ["乙"]}]
    artifact = ingested(tmp_path, {"a.jsonl": jsonl(rows)}, turns_field="log")
    assert texts_of(artifact) == ["甲", "乙"]
    assert rejects(artifact) == {"a.jsonl#1": "malformed_turns"}


def test_a_named_text_field_takes_precedence_over_unnamed_turns(tmp_path: Path) -> None:
    rows = [{"text": "文", "messages": ["甲"]}, {"text": "文", "messages": []}]
    assert texts_of(ingested(tmp_path / "1", {"a.jsonl": jsonl(rows)})) == ["甲", "文"]
    assert texts_of(ingested(tmp_path / "2", {"a.jsonl": jsonl(rows)}, text_field="text")) == ["文", "文"]


@given(st.lists(st.tuples(st.sampled_from(["user", "doctor", "护士"]), st.text(max_size=20))))
def test_every_turn_with_text_becomes_one_line(turns: list[tuple[str, str]]) -> None:
    result = dialogue_text([{"role": role, "content": text} for role, text in turns], {})
    assert isinstance(result, tuple)
    text, count = result
    names = [
        {"user": "患者", "doctor": "医生"}.get(role, role)
        for role, said in turns
        if said.strip("\x1c\x1d\x1e\x1f").strip()
    ]
    lines = text.split("\n") if text else []
    assert [line.partition("：")[0] for line in lines] == names and count == len(names)


SOURCES = {f"{folder}/a.txt": folder.encode() for folder in ("emr", "dialogue", "other/emr", "notes", "notes/old")}


@pytest.mark.parametrize(
    ("params", "sources"),
    [
        ({}, ["dialogue", "emr", "article", "article", "emr"]),
        ({"source": "textbook"}, ["textbook"] * 5),
        ({"source_of": {"notes": "emr", "notes/old/": "textbook"}}, ["dialogue", "emr", "emr", "textbook", "emr"]),
        ({"source_of": {"*/emr/*": "x", "*": "y"}, "source": "z"}, ["y", "y", "y", "y", "x"]),
    ],
)
def test_folders_and_patterns_set_sources(tmp_path: Path, params: dict[str, Any], sources: list[str]) -> None:
    documents = ingested(tmp_path, SOURCES, **params).to_table("documents").to_pylist()
    assert [row["text"] for row in documents] == ["dialogue", "emr", "notes", "notes/old", "other/emr"]
    assert [row["source"] for row in documents] == sources


def test_rows_and_turns_set_their_own_source(tmp_path: Path) -> None:
    rows = [{"turns": ["甲"]}, {"turns": ["乙"], "kind": "emr"}, {"text": "丙"}]
    artifact = ingested(tmp_path, {"a.jsonl": jsonl(rows), "textbook/b.jsonl": jsonl(rows)}, source_field="kind")
    sources = artifact.to_table("documents")["source"].to_pylist()
    assert sources == ["dialogue", "emr", "article", "textbook", "emr", "textbook"]


def test_blank_sources_are_invalid() -> None:
    with pytest.raises(ValidationError, match="blank"):
        IngestParams(source_of={"a": " "})


QUESTIONS = [
    {"department": "内科", "title": "头痛", "ask": "头痛三天。", "answer": "多休息。" * 200},
    {"department": "外科", "title": "外伤", "ask": "腿摔伤了。", "answer": None},
    {"department": "外科", "title": "空", "ask": " ", "answer": ""},
]


@pytest.mark.parametrize("make", [jsonl, parquet])
def test_columns_of_questions_and_answers_become_turns(tmp_path: Path, make: Any) -> None:
    files = {"a.parquet" if make is parquet else "a.jsonl": make(QUESTIONS)}
    artifact = ingested(tmp_path, files, turns_field=["ask", "answer"])
    rows = artifact.to_table("documents").to_pylist()
    assert [row["text"] for row in rows] == ["患者：头痛三天。\n医生：" + "多休息。" * 200, "患者：腿摔伤了。"]
    assert [(row["title"], row["source"]) for row in rows] == [("头痛", "dialogue"), ("外伤", "dialogue")]
    assert [(meta["turns"], meta["department"]) for meta in metas(artifact)] == [(2, "内科"), (1, "外科")]
    assert list(rejects(artifact).values()) == ["empty_text"]
    named = ingested(tmp_path / "2", files, turns_field=["ask", "answer"], roles={"Answer": "专家"})
    assert texts_of(named)[0].split("\n")[1].startswith("专家：")


def test_a_row_without_turns_is_rejected_alone(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "头痛三天。"}]
    cells = [json.dumps(turns), "", None, '[{"role": "user", "con']
    files = {
        "a.csv": table([{"id": n, "dialogue": cell} for n, cell in enumerate(cells)]),
        "b.parquet": parquet([{"id": 0, "turns": None}, {"id": 1, "turns": turns}]),
    }
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == ["患者：头痛三天。"] * 2
    places = ["a.csv#3", "a.csv#4", "a.csv#5", "b.parquet#1"]
    assert rejects(artifact) == dict.fromkeys(places, "missing_text")
    with pytest.raises(UserError, match=r"c\.csv has no column text"):  # turns as plain text are another column's
        ingested(tmp_path / "2", {"c.csv": table([{"dialogue": "患者：头痛"}])})


def test_several_fields_make_one_text(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.jsonl": jsonl(QUESTIONS)}, text_field=["title", "ask", "answer"])
    assert texts_of(artifact) == ["头痛\n头痛三天。\n" + "多休息。" * 200, "外伤\n腿摔伤了。", "空"]
    assert artifact.to_table("documents")["title"].to_pylist() == [""] * 3
    rows = [{"ask": 5, "answer": "甲"}, {"answer": "乙"}, {"ask": None}, {"other": "丙"}]
    bad = ingested(tmp_path / "2", {"a.jsonl": jsonl(rows)}, text_field=["ask", "answer"])
    assert texts_of(bad) == ["乙"]
    assert list(rejects(bad).values()) == ["text_not_string", "missing_text", "missing_text"]


@pytest.mark.parametrize("which", ["text_field", "turns_field"])
def test_a_missing_column_is_an_error(tmp_path: Path, which: str) -> None:
    with pytest.raises(
        UserError, match=r"a\.csv has no column 'anwser'; its columns are department, title, ask, answer\. Set"
    ):
        ingested(tmp_path, {"a.csv": table(QUESTIONS)}, **{which: ["ask", "anwser"]})
    with pytest.raises(ValidationError, match="name a field"):
        IngestParams(**{which: []})


def test_values_that_are_too_long_for_meta_are_counted(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.jsonl": jsonl(QUESTIONS)}, text_field="ask")
    assert artifact.manifest.counters["meta_values_left_out"] == 1
    assert "answer" not in metas(artifact)[0]


def test_a_turn_has_the_first_of_its_texts_that_is_not_blank() -> None:
    turns = [{"role": "user", "content": None, "text": "头痛三天"}, {"content": " ", "value": "乙", "text": 5}]
    assert dialogue_text(turns, {}) == ("患者：头痛三天\n乙", 2)


PAIRS = [["头痛三天。", "发热吗？"], ["不发热。", None]]
PAIRS_TEXT = "患者：头痛三天。\n医生：发热吗？\n患者：不发热。"


@pytest.mark.parametrize("field", ["conversations", "对话"])
def test_pairs_become_questions_and_answers(tmp_path: Path, field: str) -> None:
    files = {
        "a.jsonl": jsonl([{field: PAIRS}]),
        "b.csv": table([{field: json.dumps(PAIRS)}]),
        "c.parquet": parquet([{field: PAIRS}]),
    }
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == [PAIRS_TEXT] * 3
    assert [meta["turns"] for meta in metas(artifact)] == [3] * 3
    assert dialogue_text(PAIRS[:1], {"User": "来访者"}) == ("来访者：头痛三天。\n医生：发热吗？", 2)
    for other in (["甲"], ["甲", "乙", "丙"], ["甲", 5], ["医生", "甲"]):
        assert rejects(ingested(tmp_path / str(other), {"a.jsonl": jsonl([{field: [other]}, {"text": "好"}])})) == {
            "a.jsonl#1": "malformed_turns"
        }


LONG = "多休息。" * 200


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"instruction": "怎么办？", "input": "", "output": LONG}, f"患者：怎么办？\n医生：{LONG}"),
        ({"output": LONG, "input": "我怕。", "instruction": "怎么办？"}, f"患者：怎么办？\n患者：我怕。\n医生：{LONG}"),
        ({"query": "怎么办？", "response": LONG, "system": "你是医生"}, f"患者：怎么办？\n医生：{LONG}"),
        ({"prompt": "怎么办？", "response": None}, "患者：怎么办？"),
    ],
)
def test_the_history_comes_before_the_last_question(tmp_path: Path, last: dict[str, str], text: str) -> None:
    rows = [{**last, "history": PAIRS}, {**last, "history": []}, {**last, "history": None}]
    cells = [{**row, "history": json.dumps(row["history"]) if row["history"] else row["history"]} for row in rows]
    files = {"a.jsonl": jsonl(rows), "b.parquet": parquet(rows), "c.csv": table(cells)}
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == [f"{PAIRS_TEXT}\n{text}", text, text] * 3
    assert set(artifact.to_table("documents")["source"].to_pylist()) == {"dialogue"}
    assert all(not {"history", *last} - {"system"} & meta.keys() for meta in metas(artifact))


def test_a_history_can_be_named_but_the_history_of_an_illness_has_no_turns(tmp_path: Path) -> None:
    rows = [{"history": PAIRS, "q": "怎么办？", "a": "多休息。"}]
    named = ingested(tmp_path / "1", {"a.jsonl": jsonl(rows)}, turns_field=["history", "q", "a"], roles={"q": "患者"})
    assert texts_of(named) == [f"{PAIRS_TEXT}\n患者：怎么办？\na：多休息。"]
    last = {"query": "怎么办？", "response": "多休息。"}
    rows = [
        {"text": "文", "history": PAIRS, **last},
        {"history": "高血压十年", **last},
        {"history": ["甲"], "query": 5},
    ]
    other = ingested(tmp_path / "2", {"a.jsonl": jsonl(rows)})
    assert texts_of(other) == ["文"]
    assert rejects(other) == {"a.jsonl#2": "missing_text", "a.jsonl#3": "missing_text"}
    cells = [json.dumps(PAIRS), json.dumps(PAIRS)[:-9]]
    cut = ingested(tmp_path / "3", {"a.csv": table([{"history": cell, **last} for cell in cells])})
    assert texts_of(cut) == [f"{PAIRS_TEXT}\n患者：怎么办？\n医生：多休息。"]
    assert rejects(cut) == {"a.csv#3": "missing_text"}
