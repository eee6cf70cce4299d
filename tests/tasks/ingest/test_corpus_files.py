"""Ingest reads files of every kind, keeps the readable rows of broken ones, and rejects the others with a reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.documents import document_id
from tasks.files.encodings import detect_encoding
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import COMPRESSIONS, FORMATS, jsonl
from tests.support.text.stages import do, reasons_of, texts_of

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者年龄{n}岁。"} for n in range(50)]


@pytest.fixture
def read(store: ArtifactStore, tmp_path: Path) -> Callable[..., Artifact]:
    """Write files into a folder and ingest it."""
    folder = tmp_path / "corpus"

    def run(files: dict[str, bytes], **params: Any) -> Artifact:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return do(store, ingest, IngestParams(**params), corpus=RawInput(folder))

    return run


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_documents(read: Any, kind: str, compression: str) -> None:
    content = COMPRESSIONS[compression](FORMATS[kind](ROWS))
    artifact = read({f"a.{kind}{compression}": content}, source="emr")
    documents = artifact.to_table("documents").to_pylist()
    assert [(row["title"], row["text"]) for row in documents] == [(row["title"], row["text"]) for row in ROWS]
    assert documents[0]["source"] == "emr"
    assert documents[0]["doc_id"] == document_id("emr", "标题0", ROWS[0]["text"])
    assert json.loads(documents[0]["meta"])["file"] == f"a.{kind}{compression}"
    assert artifact.rows("rejects") == 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_big_file_is_cut_and_its_rows_keep_their_numbers(read: Any, kind: str) -> None:
    artifact = read({f"a.{kind}": FORMATS[kind](ROWS)}, bytes_per_part=600)
    assert len(artifact.parts("documents")) > 3
    assert texts_of(artifact) == [row["text"] for row in ROWS]
    rows = [json.loads(meta)["row"] for meta in artifact.to_table("documents")["meta"].to_pylist()]
    assert rows == list(range(1, 51))


def test_small_files_share_a_part(read: Any) -> None:
    files = {f"{n:03}.txt": f"文件{n}".encode() for n in range(100)}
    artifact = read(files)
    assert len(artifact.parts("documents")) == 1
    assert texts_of(artifact) == [f"文件{n}" for n in range(100)]


@pytest.mark.parametrize(
    ("way", "texts"),
    [
        ("auto", ["甲一\n甲二\n\n乙一\n \n丙一"]),
        ("file", ["甲一\n甲二\n\n乙一\n \n丙一"]),
        ("blank_lines", ["甲一\n甲二\n", "乙一\n ", "丙一"]),
        ("lines", ["甲一", "甲二", "乙一", "丙一"]),
    ],
)
def test_a_txt_is_cut_into_documents(read: Any, way: str, texts: list[str]) -> None:
    artifact = read({"a.txt": "甲一\r\n甲二\r\n\r\n乙一\r\n \r\n丙一".encode()}, txt_documents=way)
    assert texts_of(artifact) == texts


@pytest.mark.parametrize("way", ["lines", "blank_lines"])
def test_cutting_a_txt_changes_no_document(read: Any, way: str) -> None:
    text = "\n\n".join(f"段{n}第一行\n第二行" for n in range(200)).encode()
    whole = read({"a.txt": text}, txt_documents=way)
    cut = read({}, txt_documents=way, bytes_per_part=500)
    assert len(cut.parts("documents")) > 5
    assert cut.to_table("documents").to_pylist() == whole.to_table("documents").to_pylist()


def of_the_mac(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n").replace(b"\n", b"\r")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030"])
@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_lines_that_end_in_returns_are_lines(read: Any, kind: str, compression: str, encoding: str) -> None:
    content = of_the_mac(FORMATS[kind](ROWS).decode().encode(encoding))
    artifact = read({f"a.{kind}{compression}": COMPRESSIONS[compression](content)}, bytes_per_part=600)
    assert texts_of(artifact) == [row["text"] for row in ROWS]
    first = 1 if kind == "jsonl" else 2
    rows = [json.loads(meta)["row"] for meta in artifact.to_table("documents")["meta"].to_pylist()]
    assert rows == list(range(first, first + 50))
    assert (len(artifact.parts("documents")) > 3) == (kind == "jsonl" and not compression)
    assert artifact.rows("rejects") == 0


@pytest.mark.parametrize("way", ["lines", "blank_lines", "auto"])
def test_a_txt_with_returns_is_cut_as_one_with_line_feeds(read: Any, way: str) -> None:
    text = "\n\n".join(f"段{n}第一行\n第二行" for n in range(3000)).encode() * (20 if way == "auto" else 1)
    plain = read({"a.txt": text}, txt_documents=way, bytes_per_part=1 << 16)
    other = read({"a.txt": of_the_mac(text)}, txt_documents=way, bytes_per_part=1 << 16)
    assert len(other.parts("documents")) > 1
    assert other.to_table("documents").to_pylist() == plain.to_table("documents").to_pylist()


def test_returns_in_a_file_with_line_feeds_do_not_end_lines(read: Any) -> None:
    rows = [{"text": "甲" * 40}, {"text": "乙\r丙"}]
    assert texts_of(read({"a.csv": FORMATS["csv"](rows).replace(b"\r\n", b"\n")})) == ["甲" * 40, "乙\n丙"]
    wide = "不痛。\r不咳。".encode("utf-16-le")  # the bytes of 不 are those of a return and another
    assert texts_of(read({"b.txt": wide}, source="emr", encoding="utf-16-le"))[-1] == "不痛。\n不咳。"


def test_a_long_txt_is_packed_between_paragraphs(read: Any) -> None:
    paragraphs = [f"段落{n}，" + "内容" * 400 + "。" for n in range(900)]
    artifact = read({"a.txt": "\n\n".join(paragraphs).encode()})
    texts = texts_of(artifact)
    assert 20 < len(texts) < 60
    assert [line for text in texts for line in text.split("\n") if line] == paragraphs


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_are_distinguished(read: Any, encoding: str) -> None:
    text = "患者，男，65岁。血压120/80 mmHg。\n" * 40
    assert texts_of(read({"a.txt": text.encode(encoding)})) == [text.rstrip("\n")]


def test_an_undecodable_byte_error_names_file_position_and_remedy(read: Any) -> None:
    good = ("患者主诉头痛。" * 10).encode()
    with pytest.raises(UserError, match=rf"b/a\.txt is not in utf-8: .* at byte {len(good):,}.*ingest\.encoding"):
        read({"b/a.txt": good + b"\xff\xfe" + good})


def test_an_undecodable_byte_in_a_long_line_does_not_reject_the_file(read: Any) -> None:
    good = "患者主诉头痛。" * 20_000
    assert texts_of(read({"a.txt": good.encode() + b"\xff\xfe" + good.encode()})) == [f"{good}\ufffd\ufffd{good}"]


def test_a_broken_utf8_file_is_not_mistaken_for_gb18030() -> None:
    text = ("患者主诉头痛。" * 100).encode()
    assert detect_encoding(text) == "utf-8"
    assert detect_encoding(text[:300] + b"\xff" + text[300:]) == "utf-8"
    assert detect_encoding(text.decode().encode("gb18030")) == "gb18030"
    assert detect_encoding(b"") == "utf-8"


def test_the_encoding_can_be_set(read: Any) -> None:
    assert texts_of(read({"a.txt": "病歷".encode("big5")}, encoding="big5")) == ["病歷"]
    with pytest.raises(ValidationError, match="unsupported encoding"):
        IngestParams(encoding="latin-99")


def test_bad_rows_are_rejected_with_file_and_row_and_the_run_continues(read: Any) -> None:
    rows = [
        b'{"text": "good"}',
        b"{bad",
        b"",
        b'["a list"]',
        b'{"text": 5}',
        b'{"text": null}',
        b'{"text": " "}',
        b'{"body_text": "?"}',
        b"[" * 100_000,
        b'{"text": "\\ud83d half"}',
        b'{"text": "\\u0000 nul"}',
    ]
    artifact = read({"a.jsonl": b"\n".join(rows)})
    assert texts_of(artifact) == ["good", "\ufffd half", "\0 nul"]
    rejects = {row["doc_id"]: row["reason"] for row in artifact.to_table("rejects").to_pylist()}
    assert rejects == {
        "a.jsonl#2": "invalid_json",
        "a.jsonl#4": "not_an_object",
        "a.jsonl#5": "text_not_string",
        "a.jsonl#6": "missing_text",
        "a.jsonl#7": "empty_text",
        "a.jsonl#8": "missing_text",
        "a.jsonl#9": "invalid_json",
    }
    assert artifact.manifest.counters["rejected_missing_text"] == 2


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2"])
def test_a_truncated_archive_keeps_its_readable_rows(read: Any, compression: str) -> None:
    content = b"".join(jsonl([{"text": f"{n}" * 50}]) for n in range(30_000))
    squeezed = COMPRESSIONS[compression](content)
    artifact = read({f"a.jsonl{compression}": squeezed[: len(squeezed) // 2], "b.jsonl": jsonl(ROWS)})
    assert artifact.rows("documents") > 1000
    assert texts_of(artifact)[-50:] == [row["text"] for row in ROWS]
    assert "damaged_archive" in reasons_of(artifact)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.parquet.gz"])
def test_a_file_of_another_kind_than_its_name_is_rejected_alone(read: Any, name: str) -> None:
    artifact = read({name: b"something else", "b.jsonl": jsonl(ROWS)})
    assert artifact.rows("documents") == 50
    assert reasons_of(artifact) in (["damaged_archive"], ["unreadable_file"])


def test_streams_joined_into_one_archive_are_all_read(read: Any) -> None:
    halves = [jsonl(ROWS[:20]), jsonl(ROWS[20:])]
    files = {f"a.jsonl{end}": b"".join(map(squeeze, halves)) for end, squeeze in COMPRESSIONS.items() if end}
    assert texts_of(read(files)) == [row["text"] for row in ROWS] * 3


def test_unsupported_files_are_rejected(read: Any) -> None:
    artifact = read({"a.doc": b"%PDF", "b.txt": b"", "c.jsonl": jsonl(ROWS), "d.1.tar.gz": b"x", "e": b"x"})
    assert reasons_of(artifact) == ["empty_file"] + ["unknown_kind"] * 3
    details = [row["detail"] for row in artifact.to_table("rejects").to_pylist() if row["reason"] == "unknown_kind"]
    assert [detail.partition(" are")[0] for detail in details] == [
        "files ending in 'doc'",
        "files ending in 'tar.gz'",
        "files without an ending",
    ]


def test_no_readable_document_is_an_error(read: Any) -> None:
    with pytest.raises(UserError, match=r"contains no supported file.*\.jsonl"):
        read({"a.doc": b"%PDF"})
    with pytest.raises(UserError, match=r"Empty corpus.*empty_text 1, invalid_json 1, unknown_kind 1"):
        read({"b.jsonl": b'{"text": ""}\nx'})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_text_column_error_lists_the_columns(read: Any, kind: str) -> None:
    rows = [{"问": "甲", "答": "乙"}]
    with pytest.raises(UserError, match=rf"a\.{kind} has no column text or .*its columns are 问, 答.*text_field"):
        read({f"a.{kind}": FORMATS[kind](rows)})
    assert texts_of(read({}, text_field="答")) == ["乙"]


def test_a_missing_header_error_shows_no_identifiers(read: Any) -> None:
    note = "患者因反复上腹痛两年、加重一周入院，查体剑突下压痛，无反跳痛，肠鸣音正常，移动性浊音阴性。"
    rows = f"张建国,13812345678,住院号：00458213,{note}\n李秀兰,13912345678,住院号：00458214,{note}\n"
    with pytest.raises(UserError) as raised:
        read({"a.csv": rows.encode()})
    assert f"its columns are 〔姓名〕, 〔手机号〕, 住院号：〔编号〕, {note[:40]}…. Set" in str(raised.value)


def with_repeated_columns(kind: str) -> bytes:
    names = ["id", "text", "科室", "text", "", "", "id", "text"]
    rows = [
        ["1", "甲" * 600, "内科", "乙" * 600, "", "", "a", "甲" * 600],
        ["2", "丙", "外科", "", "", "", "b", ""],
        ["3", "", "外科", "丁", "", "", "c", "戊"],
    ]
    if kind == "csv":
        return "".join(",".join(row) + "\n" for row in [names, *rows]).encode()
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table([pa.array(each) for each in zip(*rows, strict=True)], names=names), sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_with_equal_names_lose_no_text_and_are_reported(
    read: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    content = with_repeated_columns(kind)
    artifact = read({f"a.{kind}": content})
    assert texts_of(artifact) == [f"{'甲' * 600}\n{'乙' * 600}", "丙", "丁\n戊"]
    metas = [json.loads(meta) for meta in artifact.to_table("documents")["meta"].to_pylist()]
    assert [(meta["id"], meta["id (2)"], meta["科室"]) for meta in metas] == [
        ("1", "a", "内科"),
        ("2", "b", "外科"),
        ("3", "c", "外科"),
    ]
    assert metas[1].keys() == {"file", "row", "id", "id (2)", "科室", ""}
    assert artifact.manifest.counters["repeated_columns"] == 3
    assert f"a.{kind} has columns with equal names: 'text' 3 times, 'id' 2 times." in caplog.text
    turns = read({}, turns_field=["text"], roles={"text": "患者"})
    assert texts_of(turns)[2] == "患者：丁\n患者：戊"


def test_title_text_source_and_other_fields_of_a_row(read: Any) -> None:
    row = {"q": "问", "a": "答\r\n案", "kind": "dialogue", "科室": "内科", "n": 3, "list": [1], "inf": float("inf")}
    artifact = read(
        {"a.jsonl": jsonl([row, {**row, "kind": ""}])}, text_field="a", title_field="q", source_field="kind"
    )
    first, second = artifact.to_table("documents").to_pylist()
    assert (first["title"], first["text"], first["source"]) == ("问", "答\n案", "dialogue")
    assert second["source"] == "article"
    assert json.loads(first["meta"]) == {"file": "a.jsonl", "row": 1, "科室": "内科", "n": 3}


def test_csv_rows_that_do_not_match_the_header_are_rejected(read: Any) -> None:
    content = 'title,text\n甲,"一\n二"\n乙\n丙,三,四\n丁,五\n'.encode()
    artifact = read({"a.csv": content})
    assert texts_of(artifact) == ["一\n二", "五"]
    rejects = {row["doc_id"]: row["reason"] for row in artifact.to_table("rejects").to_pylist()}
    assert rejects == {"a.csv#4": "missing_text", "a.csv#5": "surplus_fields"}
