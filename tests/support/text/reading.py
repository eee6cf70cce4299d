"""Helpers that make files of every kind and ingest a folder of them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import zstandard

from infra.artifacts import Artifact, ArtifactStore
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.stages import do

Rows = list[dict[str, Any]]

SENTENCES = (
    "患者主诉头痛三天。",
    "糖尿病患者应控制血糖。",
    "血压120/80 mmHg，心率75次/分。",
    "口服阿司匹林100mg，每日一次。",
)


def jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(rows: Rows, delimiter: str = ",") -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0] if rows else ["text"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink.getvalue()


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return sink.getvalue()


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "jsonl": jsonl,
    "ndjson": jsonl,
    "json": lambda rows: json.dumps(rows, ensure_ascii=False, indent=1).encode(),
    "csv": table,
    "tsv": lambda rows: table(rows, "\t"),
    "parquet": parquet,
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
}


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def ingested(root: Path, files: Mapping[str, bytes], **params: Any) -> Artifact:
    """Write files below `root` and ingest them into a store beside them."""
    corpus = RawInput(written(root / "corpus", files))
    return do(ArtifactStore(root / "store"), ingest, IngestParams(**params), corpus=corpus)


def rejects(artifact: Artifact) -> dict[str, str]:
    """Return the reason of each reject by its file and row."""
    return {row["doc_id"]: row["reason"] for row in artifact.to_table("rejects").to_pylist()}


def metas(artifact: Artifact) -> list[dict[str, Any]]:
    return [json.loads(meta) for meta in artifact.to_table("documents")["meta"].to_pylist()]
