"""Flow `corpus` with keep_raw=false: no original text is left in the store, lineage holds, another run works."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.corpus import corpus as corpus_flow
from infra.artifacts import ArtifactStore
from infra.artifacts.manifest import Manifest

NOTE = (
    "患者王伟，男，46岁，电话13812345678，因反复胸闷{}天入院，予阿司匹林100mg口服，嘱低盐饮食，定期复查心电图和血脂。"
)
OVERRIDES = {"ingest.source": "emr", "segment.min_tokens": 4, "deduplicate.threshold": None}


def refresh(corpus: Path, **given: object) -> Path:
    return Path(corpus_flow.fn(corpus=str(corpus), overrides=OVERRIDES, **given))  # type: ignore[arg-type]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(NOTE.format(number), encoding="utf-8")
    return folder


def test_raw_text_is_deleted_and_the_next_run_reads_it_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("YIWEN_HOME", str(home))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    first = refresh(corpus, keep_raw=False)
    store = ArtifactStore(str(home))
    assert not {"ingest", "clean"} & {artifact.stage for artifact in store.list()}
    assert not list((home / "ingest").rglob("*.parquet")) + list((home / "clean").rglob("*.parquet"))
    treated = store.latest("deidentify")
    assert treated is not None
    assert all("王伟" not in text for text in treated.to_table("documents")["text"].to_pylist())
    cleaned = treated.manifest.inputs["documents"]
    kept = home / ".discarded" / cleaned.stage / f"{cleaned.fingerprint}.json"
    assert Manifest.model_validate_json(kept.read_bytes()).address() == cleaned.fingerprint
    assert kept.stat().st_mode & 0o077 == 0

    assert refresh(corpus, keep_raw=False) == first  # made again, at the same addresses
    (corpus / "3.txt").write_text(NOTE.format(3), encoding="utf-8")
    grown = refresh(corpus)
    assert grown != first
    assert {"ingest", "clean"} <= {artifact.stage for artifact in store.list()}
