"""Ingest: every kind and compression, cuts of big files, encodings, and damaged input."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.synthetic_text import synthetic_documents

ROWS = [
    {"title": d["title"], "text": f"{d['text']}第{number}篇。"} for number, d in enumerate(synthetic_documents()[:20])
]


def ingested(store: ArtifactStore, path: Path, **params: Any) -> Artifact:
    return run(ingest, store, IngestParams(**params), {"corpus": RawInput(path)}).artifact


def texts(artifact: Artifact) -> list[str]:
    return artifact.scan("documents").collect()["text"].to_list()


def write_jsonl(path: Path) -> None:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS), encoding="utf-8")


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["title", "text"], delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(ROWS)


def write_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=7)


def write_txt(path: Path) -> None:
    path.write_text("\n\n".join(row["text"] for row in ROWS), encoding="utf-8")


WRITERS: dict[str, Callable[[Path], None]] = {
    "a.jsonl": write_jsonl,
    "a.csv": write_csv,
    "a.tsv": write_csv,
    "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_every_kind_gives_the_same_documents(store: ArtifactStore, tmp_path: Path, name: str, compression: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    if compression:
        packed = path.with_name(path.name + compression)
        pack = gzip.compress if compression == ".gz" else zstandard.compress
        packed.write_bytes(pack(path.read_bytes()))
        path = packed
    artifact = ingested(store, path, source="encyclopedia")
    rows = artifact.to_table().to_pylist()
    assert [{"title": row["title"], "text": row["text"]} for row in rows] == ROWS
    assert {row["source"] for row in rows} == {"encyclopedia"}
    assert len({row["doc_id"] for row in rows}) == len(ROWS)
    assert all(len(row["doc_id"]) == 32 and json.loads(row["meta"])["file"] == path.name for row in rows)
    assert artifact.rows("rejects") == 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_cutting_a_big_file_changes_only_the_parts(store: ArtifactStore, tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    whole, cut = ingested(store, tmp_path / name), ingested(store, tmp_path / name, bytes_per_part=900)
    assert len(cut.parts("documents")) > len(whole.parts("documents"))
    assert cut.to_table().to_pylist() == whole.to_table().to_pylist()


@pytest.mark.parametrize(("splitting", "documents"), [("file", 1), ("blank_lines", 20), ("lines", 20)])
def test_plain_text_is_split_into_documents(
    store: ArtifactStore, tmp_path: Path, splitting: str, documents: int
) -> None:
    write_txt(tmp_path / "a.txt")
    assert len(texts(ingested(store, tmp_path / "a.txt", txt_documents=splitting))) == documents


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_encodings_are_detected(store: ArtifactStore, tmp_path: Path, encoding: str) -> None:
    text = "糖尿病患者应控制血糖，体温38.5℃。"
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert texts(ingested(store, tmp_path / "a.txt")) == [text]


def test_an_undecodable_byte_error_names_its_position(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("糖尿病".encode() * 50 + b"\xff\xff" + "患者".encode())
    with pytest.raises(UserError, match=r"a\.txt is not in utf-8: .* at byte 450 .*ingest\.encoding"):
        ingested(store, tmp_path / "a.txt")


def test_bad_rows_are_rejected_with_a_reason_and_the_run_continues(store: ArtifactStore, tmp_path: Path) -> None:
    lines = [
        '{"text": "糖尿病"}',
        '{"text": ',
        "[1, 2]",
        '{"title": "x"}',
        '{"text": 5}',
        '{"text": "  "}',
        '{"text": "肺炎"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    artifact = ingested(store, tmp_path / "a.jsonl")
    assert texts(artifact) == ["糖尿病", "肺炎"]
    rejects = {row["doc_id"]: row["reason"] for row in artifact.to_table("rejects").to_pylist()}
    assert list(rejects) == [f"a.jsonl#{row}" for row in (2, 3, 4, 5, 6)]
    assert rejects["a.jsonl#2"] == "invalid_json"
    assert rejects["a.jsonl#3"] == "not_an_object"
    assert sum(v for k, v in artifact.manifest.counters.items() if k.startswith("rejected_")) == 5


def test_a_truncated_archive_loses_no_readable_row(store: ArtifactStore, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "b.jsonl")
    packed = gzip.compress((tmp_path / "b.jsonl").read_bytes())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jsonl.gz").write_bytes(packed[: len(packed) * 3 // 4])
    (tmp_path / "in" / "c.txt").write_text("另一个文件。", encoding="utf-8")
    artifact = ingested(store, tmp_path / "in")
    found = texts(artifact)
    assert 1 < len(found) < 21 and found[-1] == "另一个文件。"
    assert found[:-1] == [row["text"] for row in ROWS][: len(found) - 1]
    assert artifact.manifest.counters["rejected_damaged_archive"] == 1


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"[]\n"])
def test_an_empty_corpus_is_an_error(store: ArtifactStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=r"Empty corpus: no row of .*a\.jsonl"):
        ingested(store, tmp_path / "a.jsonl")


def test_missing_and_unsupported_input_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere does not exist"):
        ingested(store, tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="folder contains no files"):
        ingested(store, tmp_path / "folder")
    (tmp_path / "a.doc").write_bytes(b"x")
    with pytest.raises(UserError, match=r"contains no supported file.*\.jsonl"):
        ingested(store, tmp_path / "a.doc")
    (tmp_path / "b.csv").write_text("甲,乙\n1,2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"ingest\.text_field"):
        ingested(store, tmp_path / "b.csv")


def test_a_named_field_is_used(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("病历,备注\n糖尿病五年。,无\n", encoding="utf-8")
    assert texts(ingested(store, tmp_path / "b.csv", text_field="病历")) == ["糖尿病五年。"]


def test_an_input_is_identified_by_its_content_not_its_path(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("糖尿病" if folder != "c" else "高血压", encoding="utf-8")
    first, same, other = (RawInput(tmp_path / folder).fingerprint for folder in ("a", "b", "c"))
    assert first == same != other
