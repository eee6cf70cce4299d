"""Files of a corpus that ask for far more memory or time than their size: rejected by name; no other row is lost."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from infra.disk.parquet_batches import ParquetBombError, parquet_batches
from infra.limits import VARIABLE
from tests.support.processes.limited import limited
from tests.support.text.reading import ingested, jsonl, parquet, rejects, written, zipped
from tests.support.text.stages import texts_of

GOOD = [{"text": f"第{number}篇：患者头痛三天，伴有恶心和呕吐。"} for number in range(50)]


def stored(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink, compression="zstd", write_statistics=False, **options)
    return sink.getvalue()


def dictionary_bomb(rows: int = 512, characters: int = 4_000_000) -> bytes:
    """One value of 12 MB and rows that point to it: 1.6 kB for 6 GB."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["痛" * characters]))
    return stored(pa.table({"text": column}), dictionary_pagesize_limit=1 << 30)


def nested_bomb() -> bytes:
    """A row with a list of 2,000 times the same 3 MB: 6 GB."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), pa.array(["痛" * 1_000_000]))
    turns = pa.ListArray.from_arrays(pa.array([0, 2_000], pa.int32()), values)
    return stored(pa.table({"turns": turns}), dictionary_pagesize_limit=1 << 30)


def null_bomb(rows: int = 50_000_000) -> bytes:
    return stored(pa.table({"text": pa.nulls(rows, pa.string())}), row_group_size=rows)


def rows_bomb(groups: int = 3) -> bytes:
    """Row groups of nulls, of which each alone is small enough: 7 kB for 3,000,000 rows."""
    return stored(pa.table({"text": pa.nulls(groups * 1_000_000, pa.string())}), row_group_size=1_000_000)


def long_line(mib: int) -> bytes:
    sink = io.BytesIO()
    with gzip.open(sink, "wb", compresslevel=1) as file:
        for _ in range(mib):
            file.write(b"a" * (1 << 20))
    return sink.getvalue()


def overlapping_zip() -> bytes:
    """Entries that all point to the bytes of the first: a zip bomb without nesting."""
    whole = zipped({f"{number}.txt": "患者头痛三天。".encode() * 1_000 for number in range(3)})
    data = bytearray(whole)
    first = whole.index(b"PK\x01\x02")
    for _ in range(1, 3):
        first = whole.index(b"PK\x01\x02", first + 4)
        struct.pack_into("<I", data, first + 42, 0)
    return bytes(data)


INGEST = """
import sys
from pathlib import Path
from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
folder = Path(sys.argv[1])
made = run(ingest, ArtifactStore(folder / "store"), IngestParams(), {"corpus": RawInput(folder / "corpus")}).artifact
reasons = {row["doc_id"].split("#")[0]: row["reason"] for row in made.to_table("rejects").to_pylist()}
good = sum("患者头痛三天，伴有" in text for text in made.to_table("documents")["text"].to_pylist())
report([reasons, good, made.rows("documents")])
"""


@pytest.mark.slow
def test_bombs_are_rejected_by_name_and_other_files_are_read(tmp_path: Path) -> None:
    bombs = {
        "dictionary.parquet": dictionary_bomb(),
        "nested.parquet": nested_bomb(),
        "nulls.parquet": null_bomb(),
        "rows.parquet": rows_bomb(),
        "line.txt.gz": long_line(600),
        "overlapping.zip": overlapping_zip(),
    }
    assert all(len(bomb) < 3_000_000 for bomb in bombs.values())
    written(tmp_path / "corpus", bombs | {"good.jsonl": jsonl(GOOD), "good.parquet": parquet(GOOD)})
    reasons, good, documents = limited(INGEST, str(tmp_path), mib=2_000, seconds=240)
    named = {name.partition(".")[0]: reason for name, reason in reasons.items()}
    assert named == {
        "dictionary": "archive_bomb",
        "nested": "archive_bomb",
        "nulls": "archive_bomb",
        "rows": "archive_bomb",
        "line": "archive_bomb",
        "overlapping": "archive_bomb",
    }
    assert good == 2 * len(GOOD)
    assert documents - good < 30, "what was read of the bombs before they were known"


def test_remedies_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParquetBombError, match=r"50,000,000 values in [\d,]+ bytes; write it again .* YIWEN_LIMITS"):
        next(parquet_batches(io.BytesIO(null_bomb())))
    with pytest.raises(ParquetBombError, match=r"expand to more than 6,0.*; write it again"):
        next(parquet_batches(io.BytesIO(nested_bomb())))


def test_row_groups_are_counted_together_whichever_are_read() -> None:
    with pytest.raises(ParquetBombError, match=r"has 3,000,000 rows in [\d,]+ bytes; write it again .* YIWEN_LIMITS"):
        next(parquet_batches(io.BytesIO(rows_bomb()), groups=[1]))


def test_many_equal_rejects_in_a_row_are_few_rows(tmp_path: Path) -> None:
    """A batch has 512 rows, so the run goes over several, and rows are rejected one by one up to its thousandth."""
    texts = [None] * 3_000 + ["患者头痛三天。"] + [None] * 1_001 + [" "]
    artifact = ingested(tmp_path, {"a.parquet": stored(pa.table({"text": texts, "id": range(len(texts))}))})
    assert texts_of(artifact) == ["患者头痛三天。"]
    found = rejects(artifact)
    assert [name for name in found if "-" in name] == ["a.parquet#1001-3000"]
    assert list(found)[999:] == [
        "a.parquet#1000",
        "a.parquet#1001-3000",
        *(f"a.parquet#{number}" for number in range(3_002, 4_004)),
    ]
    assert artifact.manifest.counters["rejected_missing_text"] == 4_001
    (read,) = artifact.to_table("files").to_pylist()
    assert (read["rows"], read["documents"]) == (len(texts), 1)


def test_sparse_and_repetitive_parquet_files_are_read() -> None:
    """Texts that are repeated a thousand times, and columns of nulls beside them."""
    rows = 1_200_000
    texts = pa.array([f"第{number}种：患者头痛三天，伴有恶心和呕吐。" for number in range(1_200)])
    drawn = pa.array(np.random.default_rng(1).integers(0, len(texts), rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(drawn, texts)
    table = pa.table({"text": column, "empty": pa.nulls(rows, pa.string()), "more": pa.nulls(rows, pa.int64())})
    batches = parquet_batches(io.BytesIO(stored(table, row_group_size=500_000)), rows=100_000)
    assert sum(map(len, batches)) == rows


def test_a_long_value_among_others_is_read_in_small_batches() -> None:
    texts = ["短"] * 1_000 + ["痛" * 1_000_000] * 3 + ["长"] * 1_000
    data = io.BytesIO(stored(pa.table({"text": texts}), dictionary_pagesize_limit=1 << 30))
    batches = list(parquet_batches(data))
    assert [text for batch in batches for text in batch[0].to_pylist()] == texts
    assert max(len(batch) for batch in batches) <= (128 << 20) // 3_000_000


@pytest.mark.parametrize("kind", ["map", "struct", "list", "turns", "plain", "dates"])
def test_columns_of_every_kind_are_read_as_they_are(kind: str) -> None:
    column = {
        "map": pa.array([[("a", "痛")] * n for n in range(9)], pa.map_(pa.string(), pa.string())),
        "struct": pa.array([{"a": "痛" * n, "b": [n] * n} for n in range(9)]),
        "list": pa.array([["痛", None, "热"][: n % 4] for n in range(9)]),
        "turns": pa.array([[f"{n} {k} " * 30_000 for k in range(9)] for n in range(9)]),  # too much for a dictionary
        "plain": pa.array([None, "痛", "热"] * 3),
        "dates": pa.array(range(9), pa.timestamp("us")),
    }[kind]
    table = pa.table({"column": column, "text": ["甲"] * 9})
    batches = list(parquet_batches(io.BytesIO(stored(table, row_group_size=4))))
    assert [row for batch in batches for row in batch.to_pylist()] == table.to_pylist()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"a" * 3_000_000, "line_too_long"),
        ("a.jsonl", b'{"text": "' + b"a" * 3_000_000 + b'"}', "line_too_long"),
        ("a.csv", b"text\n" + b"a" * 3_000_000, "line_too_long"),
        ("a.html", b"<p>" + b"a\n" * 1_500_000, "page_too_long"),
        ("short.txt", b"a\n" * 1_500_000, "document_too_long"),
        ("a.txt.gz", gzip.compress(b"a" * 3_000_000), "line_too_long"),
    ],
)
def test_a_row_beyond_the_limit_costs_itself(
    name: str, content: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "row_bytes=1MiB")
    files = {name: content, "good.jsonl": jsonl(GOOD)}
    artifact = ingested(tmp_path, files, txt_documents="file")
    assert list(rejects(artifact).values()) == [reason]
    assert texts_of(artifact) == [row["text"] for row in GOOD]


def test_an_element_too_long_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it once its middle is dropped may look whole, and is none."""
    monkeypatch.setenv(VARIABLE, "row_bytes=1MiB")
    elements = [{"text": text} for text in ("前", "a" * 3_000_000, "后")]
    for name, end in (("a.json", ", "), ("b.json", ",\n")):
        data = f"[{end.join(json.dumps(element, ensure_ascii=False) for element in elements)}]"
        artifact = ingested(tmp_path / name, {name: data.encode()})
        assert texts_of(artifact) == ["前", "后"]
        assert list(rejects(artifact).values()) == ["line_too_long"]


def test_json_numbers_and_depth_cost_their_row_only(tmp_path: Path) -> None:
    first, last = (jsonl([{"text": text}]).strip() for text in "前后")
    lines = [first, b'{"n": ' + b"9" * 1_000_000 + b"}", b"[" * 1_000_000, last]
    artifact = ingested(tmp_path, {"a.jsonl": b"\n".join(lines)})
    assert texts_of(artifact) == ["前", "后"]
    assert set(rejects(artifact).values()) == {"invalid_json"}


def test_limits_that_set_nothing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "rowbytes=1GiB")
    with pytest.raises(ValueError, match=r"'rowbytes=1GiB' sets no limit.*row_bytes=1GiB; the names are"):
        ingested(tmp_path, {"a.jsonl": jsonl(GOOD)})


def test_compressed_parquet_without_temporary_files(tmp_path: Path) -> None:
    """/tmp is read-only: named, with the variable that helps."""
    written(tmp_path / "corpus", {"a.parquet.gz": gzip.compress(parquet(GOOD))})
    closed = """
import tempfile
tempfile._candidate_tempdir_list = lambda: ["/proc/none"]
try:
    exec(sys.argv[2])
except Exception as error:
    report([type(error).__name__, str(error)])
"""
    kind, told = limited("import sys\n" + closed, str(tmp_path), INGEST, mib=1_000, seconds=120)
    assert kind == "UserError"
    assert "Set TMPDIR" in told


def test_zip_member_names_do_not_hide_one_another(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for number in range(3):
            archive.writestr("a\x1b[2K.txt", f"第{number}份")
    artifact = ingested(tmp_path, {"a.zip": sink.getvalue()})
    assert texts_of(artifact) == ["第0份", "第1份", "第2份"]
    assert len({json.loads(meta)["file"] for meta in artifact.to_table("documents")["meta"].to_pylist()}) == 3


def test_a_return_within_a_row_of_several_lines_costs_that_row(tmp_path: Path) -> None:
    """Found by fuzzing: the rows that a lost quote takes in were looked for, and one had a return in it."""
    artifact = ingested(tmp_path, {"a.csv": 'text,title\r\n"x\r\na\rb,c\r\ny",z,w\r\n前,后\r\n'.encode()})
    assert "前" in texts_of(artifact)
