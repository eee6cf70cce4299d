"""Bad input of every kind: readable rows are kept, the others are rejected with file, row and reason."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.limits import VARIABLE
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import COMPRESSIONS, FORMATS, ingested, jsonl, metas, rejects, written
from tests.support.text.stages import reasons_of, texts_of

pytestmark = pytest.mark.slow

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者年龄{n}岁。"} for n in range(50)]


def noisy_rows(count: int) -> list[dict[str, str]]:
    """Return rows that compress badly."""
    draw = random.Random(3)
    return [{"title": str(n), "text": "".join(draw.choices("患者头痛血压糖尿病abc123", k=60))} for n in range(count)]


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "txt"])
@pytest.mark.parametrize("share", [0.5, 0.93])
def test_a_truncated_archive_keeps_everything_before_the_damage(
    tmp_path: Path, kind: str, compression: str, share: float
) -> None:
    rows = noisy_rows(20_000)
    content = "\n".join(row["text"] for row in rows).encode() if kind == "txt" else FORMATS[kind](rows)
    whole = COMPRESSIONS[compression](content)
    name = f"a.{kind}{compression}"
    artifact = ingested(
        tmp_path, {name: whole[: int(len(whole) * share)], "b.jsonl": jsonl(ROWS)}, txt_documents="lines"
    )
    texts = texts_of(artifact)
    assert texts[-50:] == [row["text"] for row in ROWS]
    kept, wanted = texts[:-50], [row["text"] for row in rows]
    assert len(kept) > 0.5 * share * len(rows)
    if kind == "txt":  # the last line may be cut
        assert wanted[len(kept) - 1].startswith(kept.pop())
    assert kept == wanted[: len(kept)]
    assert reasons_of(artifact) == ["damaged_archive"]


def test_rows_before_a_flipped_bit_are_kept(tmp_path: Path) -> None:
    rows = noisy_rows(20_000)
    packed = bytearray(COMPRESSIONS[".gz"](jsonl(rows)))
    packed[len(packed) // 2] ^= 0xFF
    artifact = ingested(tmp_path, {"a.jsonl.gz": bytes(packed)})
    wanted = [row["text"] for row in rows]
    assert len(set(texts_of(artifact)) & set(wanted)) > 0.49 * len(rows)
    assert "damaged_archive" in reasons_of(artifact)


def test_zero_bytes_are_removed_and_counted(tmp_path: Path) -> None:
    files = {
        "a.txt": "糖尿\0病".encode(),
        "b.jsonl": '{"text": "高\0血压"}'.encode(),
        "c.csv": "text\n肺\0\0炎\n".encode(),
        "d.txt": "胃溃\0疡 ok".encode("utf-16"),
        "e.txt": "湿\0疹".encode("gb18030"),
    }
    artifact = ingested(tmp_path, files)
    assert texts_of(artifact) == ["糖尿病", "高血压", "肺炎", "胃溃疡 ok", "湿疹"]
    assert artifact.manifest.counters["nul_characters"] == 6


@pytest.mark.parametrize(("kind", "megabytes"), [("jsonl", 100), ("json", 20), ("csv", 20), ("txt", 100)])
def test_a_very_long_line_is_read_in_bounded_memory(tmp_path: Path, kind: str, megabytes: int) -> None:
    text = "患者主诉头痛。" * (megabytes * 50_000)
    rows = [{"text": "前"}, {"text": text}, {"text": "后"}]
    content = "\n".join(row["text"] for row in rows).encode() if kind == "txt" else FORMATS[kind](rows)
    corpus = RawInput(written(tmp_path / "corpus", {f"a.{kind}": content}))
    _ = corpus.fingerprint
    assert len(content) > megabytes * 1_000_000
    usual = pa.default_memory_pool()
    arrow = pa.proxy_memory_pool(usual)  # tracemalloc knows nothing of Arrow's memory
    pa.set_memory_pool(arrow)
    tracemalloc.start()
    try:
        artifact = run(
            ingest, ArtifactStore(tmp_path / "store"), IngestParams(txt_documents="lines"), {"corpus": corpus}
        )
        peak = tracemalloc.get_traced_memory()[1] + arrow.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert arrow.max_memory() > len(content)
    assert texts_of(artifact.artifact) == ["前", text, "后"]
    assert peak < 10 * len(content)


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "txt"])
def test_a_line_too_long_for_any_memory_is_rejected_alone(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "row_bytes=1MiB")
    rows = [{"text": "前"}, {"text": "长" * 2_000_000}, {"text": "后"}]
    content = "\n".join(row["text"] for row in rows).encode() if kind == "txt" else FORMATS[kind](rows)
    artifact = ingested(tmp_path, {f"a.{kind}": content}, txt_documents="lines")
    assert texts_of(artifact)[0] == "前"
    assert "line_too_long" in reasons_of(artifact)
    if kind != "json":  # there the end of the element is lost with the line
        assert texts_of(artifact) == ["前", "后"]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.json", "a.csv", "a.html", "a.txt.gz", "a.parquet", "a.zip"])
def test_an_empty_file_is_rejected(tmp_path: Path, name: str) -> None:
    artifact = ingested(tmp_path, {name: b"", "b.jsonl": jsonl(ROWS)})
    assert artifact.rows("documents") == 50
    assert set(rejects(artifact)) == {name if name != "a.parquet" else "a.parquet#1"}
    assert reasons_of(artifact)[0] in ("empty_file", "unreadable_file", "damaged_archive")


def test_a_stray_carriage_return_spoils_one_row_of_a_table(tmp_path: Path) -> None:
    artifact = ingested(tmp_path, {"a.csv": "text\n甲\n乙\r丙\n丁\n".encode()})
    assert texts_of(artifact) == ["甲", "丁"]
    assert rejects(artifact) == {"a.csv#3": "invalid_row"}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_damage_anywhere_never_crashes_or_affects_other_files(tmp_path_factory: Any, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(FORMATS)))
    compression = data.draw(st.sampled_from(sorted(COMPRESSIONS)))
    content = bytearray(COMPRESSIONS[compression](FORMATS[kind](ROWS)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    files = {f"a.{kind}{compression}": bytes(content), "b.jsonl": jsonl([{"text": "另一个文件。"}])}
    try:
        artifact = ingested(tmp_path_factory.mktemp("damage"), files)
    except UserError as error:  # the header of a table may be hit
        assert "has no column" in str(error)
    else:
        assert texts_of(artifact)[-1] == "另一个文件。"
        json.dumps(rejects(artifact))


def test_values_without_a_python_object_do_not_stop_the_run(tmp_path: Path) -> None:
    good = pa.array(["甲", "乙", "丙"])
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", "乙".encode()[:2], b"c"], pa.binary()).buffers())
    files = {
        "a.parquet": {"text": good, "seen": pa.array([0, 10**18, None], pa.timestamp("us"))},
        "b.parquet": {"text": good, "seen": pa.array([0, 10**7, None], pa.int32()).cast(pa.date32())},
        "c.parquet": {"text": good, "seen": pa.array([1, 2, 3], pa.timestamp("us", tz="No/Where"))},
        "d.parquet": {"text": broken, "n": pa.array([1, 2, 3])},
    }
    artifact = ingested(tmp_path, {name: packed(columns) for name, columns in files.items()})
    assert texts_of(artifact) == ["甲", "乙", "丙"] * 3 + ["a", "c"]
    assert rejects(artifact) == {"d.parquet#2": "undecodable"}
    assert metas(artifact)[-1] == {"file": "d.parquet", "row": 3, "n": 3}


def test_text_stored_as_bytes_in_parquet_is_decoded(tmp_path: Path) -> None:
    values = ["糖尿病患者".encode(), "高血压患者头痛".encode("gb18030"), None, b"\xff\xd8\xff\xe0"]
    artifact = ingested(tmp_path, {"a.parquet": packed({"text": pa.array(values, pa.binary())})})
    assert texts_of(artifact) == ["糖尿病患者", "高血压患者头痛"]
    assert rejects(artifact) == {"a.parquet#3": "missing_text", "a.parquet#4": "undecodable"}


def packed(columns: dict[str, pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()
