"""Fields set for single files, and warnings about files that lost their rows."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from flows.recipes.meanings import attribute_docstrings
from infra.errors import UserError
from tasks.ingest.dialogues import TURNS_FIELDS
from tasks.ingest.losses import loss_warnings, losses
from tasks.ingest.row_documents import TEXT_FIELDS, TITLE_FIELDS
from tasks.ingest.stage import IngestParams
from tests.support.text.reading import ingested, jsonl, metas, rejects, table
from tests.support.text.stages import texts_of

NOTES = table([{"病历": "头痛三天。", "科室": "内科"}])
PAPERS = table([{"title": "题", "content": "糖尿病综述。"}])


@pytest.mark.parametrize(
    ("key", "names"), [("text_field", TEXT_FIELDS), ("title_field", TITLE_FIELDS), ("turns_field", TURNS_FIELDS)]
)
def test_meaning_of_a_key_has_the_default_names(key: str, names: tuple[str, ...]) -> None:
    meaning = " ".join(attribute_docstrings(IngestParams)[key].split())
    assert f"the first of {', '.join(names[:-1])} and {names[-1]}" in meaning


def test_each_file_has_the_fields_of_the_longest_pattern(tmp_path: Path) -> None:
    files = {"notes/a.csv": NOTES, "notes/b.csv": table([{"body": "咳嗽。", "名": "乙"}]), "papers/c.csv": PAPERS}
    fields = {"notes/*.csv": "病历", "notes/b.csv": {"text_field": "body", "title_field": "名"}}
    artifact = ingested(tmp_path, files, fields=fields)
    documents = artifact.to_table("documents").to_pylist()
    assert [(row["title"], row["text"]) for row in documents] == [
        ("", "头痛三天。"),
        ("乙", "咳嗽。"),
        ("题", "糖尿病综述。"),
    ]


def test_a_source_may_have_fields(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"病历/a.csv": NOTES, "papers/c.csv": PAPERS}, fields={"emr": "病历"})
    assert texts_of(artifact) == ["糖尿病综述。", "头痛三天。"]


def test_own_text_takes_precedence_over_general_turns(tmp_path: Path) -> None:
    files = {
        "qa.jsonl": jsonl([{"q": "疼吗", "a": "疼"}]),
        "notes.jsonl": jsonl([{"q": "无", "a": "无", "病历": "头痛。"}]),
    }
    artifact = ingested(tmp_path, files, turns_field=["q", "a"], fields={"notes.jsonl": ["病历"]})
    assert texts_of(artifact) == ["头痛。", "q：疼吗\na：疼"]
    assert [meta.get("turns") for meta in metas(artifact)] == [None, 2]


def test_null_leaves_a_file_out(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.csv": table([{"甲": "1"}]), "b.csv": PAPERS}, fields={"a.csv": None})
    assert texts_of(artifact) == ["糖尿病综述。"]
    assert rejects(artifact) == {}
    assert artifact.manifest.counters["files_left_out"] == 1


def test_a_missing_column_error_lists_the_columns_and_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        ingested(tmp_path, {"notes/a.csv": NOTES}, fields={"notes": "正文"})
    message = str(caught.value)
    assert "notes/a.csv has no column '正文'; its columns are 病历, 科室." in message
    assert """--param 'ingest.fields={"notes/a.csv": "COLUMN"}'""" in message


def test_a_missing_column_error_repeats_what_was_given_for_other_files(tmp_path: Path) -> None:
    given = {"notes": "病历", "qa": {"title_field": "标题"}, "old.csv": None}
    with pytest.raises(UserError) as caught:
        ingested(tmp_path, {"notes/a.csv": NOTES, "b.csv": table([{"甲": "1"}])}, fields=given)
    repeated = '{"notes": "病历", "qa": {"title_field": "标题"}, "old.csv": null, "b.csv": "COLUMN"}'
    assert f"--param 'ingest.fields={repeated}'" in str(caught.value)


def test_a_pattern_without_a_file_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ingested(tmp_path, {"notes/a.csv": NOTES}, fields={"notes": "病历", "note": "病历"})
    assert [
        record.getMessage().split(" of /")[0] for record in caplog.records if record.levelno >= logging.WARNING
    ] == ["ingest.fields: 'note' matches no file or folder"]


@pytest.mark.parametrize("given", [{"text": "病历"}, {"text_field": 5}, 5])
def test_wrong_settings_are_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="fields"):
        IngestParams.model_validate({"fields": {"a.csv": given}})


def test_a_file_that_loses_its_rows_is_a_warning_with_the_commonest_reasons(tmp_path: Path) -> None:
    good = [{"text": f"第{number}篇。"} for number in range(100)]
    bad = [{"备注": "无"}] * 80 + [{"text": ""}] * 15 + [{"text": 5}] * 4
    lines = b"".join([jsonl(bad), b"{\n[1]\n", jsonl(good[:9])])
    files = {"good.jsonl": jsonl([*good, *bad[:11]]), "lost.jsonl": lines, "kept.jsonl": jsonl([*good, *bad[:10]])}
    artifact = ingested(tmp_path, files, bytes_per_part=500)
    assert [(loss.file, loss.rejected, loss.rows) for loss in losses(artifact)] == [("lost.jsonl", 101, 110)]
    (warning,) = loss_warnings(artifact)
    assert warning.startswith(
        "lost.jsonl: 101 of 110 rows were rejected (missing_text 80, empty_text 15, text_not_string 4): the row has no "
        "field text or content or 正文 or 内容 or 文本 or body; its fields are 备注. Set ingest.text_field, or "
        "ingest.fields for this file, to one of them. The table"
    )
    assert warning.endswith("name their fields with ingest.fields.")


def test_a_lost_file_of_json_lines_tells_its_fields_without_identifiers(tmp_path: Path) -> None:
    rows = [{"王小明": "1", "电话13812345678": "2"}] * 3
    (warning,) = loss_warnings(ingested(tmp_path, {"a.jsonl": jsonl(rows), "b.csv": PAPERS}))
    assert "its fields are 〔姓名〕, 电话〔手机号〕. Set ingest.text_field" in warning


def test_a_lost_file_is_named_without_identifiers_on_one_line(tmp_path: Path) -> None:
    bad = jsonl([{"备注": "无"}])
    names = ["emr/姓名王小利13812345678.jsonl", "emr/张伟/x\nerror: forged\x1b[2K\u2028.jsonl", "emr/notes.jsonl"]
    warnings = loss_warnings(ingested(tmp_path, {**dict.fromkeys(names, bad), "b.csv": PAPERS}))
    said = "\n".join(warnings)
    assert "王小利" not in said and "13812345678" not in said and "张伟" not in said
    assert [one.partition(": 1 of 1 rows")[0] for one in warnings] == [
        "emr/notes.jsonl",
        "emr/姓名〔姓名〕〔手机号〕.jsonl",
        "emr/〔姓名〕/x\\x0aerror: forged\\x1b[2K\\u2028.jsonl",
    ]
    assert warnings[-1].endswith("shown without identifiers; the table files there has them whole.")


def test_repeated_columns_name_the_file_without_identifiers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ingested(tmp_path, {"王小利13812345678.csv": "text,text\n头痛。,发热。\n".encode()})
    assert "〔手机号〕.csv has columns with equal names" in caplog.text and "13812345678" not in caplog.text


def test_fields_are_told_of_a_row_without_text_where_that_is_the_commonest_reason(tmp_path: Path) -> None:
    empty, without = {"text": ""}, {"备注": "无"}
    files = {"a.jsonl": jsonl([empty, without, without]), "b.jsonl": jsonl([without, empty, empty]), "c.csv": PAPERS}
    first, second = loss_warnings(ingested(tmp_path, files))
    assert "its fields are 备注" in first and "its fields are" not in second


def test_many_lost_files_are_counted(tmp_path: Path) -> None:
    files = {f"{number:02}.csv": b'text\n""\n' for number in range(12)} | {"a.txt": "头痛。".encode()}
    warnings = loss_warnings(ingested(tmp_path, files))
    assert len(warnings) == 11 and warnings[-1].startswith(
        "2 more files lost more than a tenth of their rows. The table"
    )


def test_settings_are_given_as_json_on_the_command_line() -> None:
    given = json.loads('{"notes/*.csv": "病历", "qa": {"turns_field": ["ask", "answer"]}, "b": null}')
    params = IngestParams.model_validate({"fields": given})
    assert IngestParams.model_validate_json(params.model_dump_json()) == params
