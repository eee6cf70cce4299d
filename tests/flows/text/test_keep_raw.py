"""Flow `corpus` with keep_raw=false: no original text is left in the store, lineage holds, another run works."""

from __future__ import annotations

import logging
import shlex
import subprocess
from pathlib import Path

import pytest

from flows.__main__ import farewell
from flows.corpus import corpus as corpus_flow
from infra.artifacts import ArtifactStore
from infra.artifacts.manifest import Manifest
from infra.errors import UserError

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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "the home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return tmp_path / "the home"


def raw_files(home: Path) -> list[Path]:
    return [file for stage in ("ingest", "clean") for file in (home / stage).rglob("*.parquet")]


def left(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "Raw text is left" in record.getMessage()]


def test_failed_run_names_the_raw_text_that_is_left_and_the_command_that_deletes_it(
    corpus: Path, home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise UserError("no segment is long enough")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr("flows.corpus.cut_segments", fail)
        with pytest.raises(UserError, match="long enough"):
            refresh(corpus, keep_raw=False)
    assert raw_files(home), "the same command resumes from it"
    (warning,) = left(caplog)
    assert "although keep_raw=false" in warning and "The same command resumes from it" in warning
    command = shlex.split(warning.partition("To delete it now: ")[2])
    assert command[:2] == ["rm", "-r"] and len(command) == 4
    subprocess.run(command, check=True)
    assert not raw_files(home)
    refresh(corpus, keep_raw=False)  # nothing that a later run needs was lost
    assert not raw_files(home)


def test_raw_text_of_a_stage_that_is_interrupted_is_named(
    corpus: Path, home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tasks.clean.stage.clean_part", interrupt)
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        refresh(corpus, keep_raw=False)
    (warning,) = left(caplog)
    assert f"{home}/ingest/" in warning and f"{home}/clean/." in warning and ".partial" in warning


def test_run_that_keeps_raw_text_or_made_none_has_nothing_to_tell(
    corpus: Path, home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(UserError):
        refresh(corpus / "nowhere", keep_raw=False)
    monkeypatch.setattr("flows.corpus.cut_segments", lambda *arguments: 1 / 0)
    with caplog.at_level(logging.WARNING), pytest.raises(ZeroDivisionError):
        refresh(corpus)
    assert not left(caplog)


def test_interrupted_command_says_that_raw_text_is_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ["run", "corpus/refresh", "--param", "corpus=notes"]
    assert "Raw text" not in farewell([*run, "--param", "keep_raw=true"])
    for given in (["--param", "keep_raw=false"], ["--param=keep_raw=False"]):
        said = farewell([*run, *given])
        assert said.startswith(farewell(run)) and said.endswith(f": rm -r '{home}/ingest' '{home}/clean'")
    monkeypatch.setenv("YIWEN_HOME", "s3://bucket/home")
    assert farewell([*run, "--param", "keep_raw=false"]).endswith("the client of the storage")
