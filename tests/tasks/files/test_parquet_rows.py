"""Parquet files as sources of rows: what is damaged is reported and stops nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.support.text.reading import FORMATS, ingested
from tests.support.text.stages import reasons_of, texts_of

TEXTS = ["患者头痛三天，伴有恶心和呕吐。", "建议复查血常规和肝功能。"]


def test_damaged_column_name_is_reported(tmp_path: Path) -> None:
    whole = FORMATS["parquet"]([{"text": text} for text in TEXTS])
    # The pages stay as they are; what Arrow reads first, the names in the footer, is no UTF-8 any more.
    damaged = whole.replace(b"text", b"te\x80t")
    artifact = ingested(tmp_path, {"damaged.parquet": damaged, "whole.parquet": whole})
    assert sorted(texts_of(artifact)) == sorted(TEXTS)
    assert len(reasons_of(artifact)) == 1
