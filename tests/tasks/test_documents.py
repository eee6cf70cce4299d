"""Records are recognised in whatever way they are given, and untreated ones are reported."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from tasks.clean.stage import CleanParams, clean
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.deidentify.untreated import untreated_warning
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import ingested, jsonl, metas, written, zipped
from tests.support.text.stages import do, texts_of

RECORD = "住院号：20190871，患者诉头痛三天。"


def sources_of(root: Path, given: Any, **params: Any) -> list[str]:
    artifact = do(ArtifactStore(root / "store"), ingest, IngestParams(**params), corpus=RawInput(given))
    return artifact.to_table("documents")["source"].to_pylist()


@pytest.mark.parametrize("folder", ["emr", "EMR", "records", "Medical_Records", "电子病历", "病历"])
def test_a_folder_of_records_is_recognised_however_it_is_given(tmp_path: Path, folder: str) -> None:
    texts = written(tmp_path / "texts", {f"{folder}/a/b.txt": RECORD.encode(), "article/c.txt": b"x"})
    place, other = texts / folder, texts / "article"
    assert sources_of(tmp_path, place) == ["emr"]
    assert sources_of(tmp_path, f"{place}/") == ["emr"]
    assert sorted(sources_of(tmp_path, [place, other])) == ["article", "emr"]
    assert sorted(sources_of(tmp_path, texts)) == ["article", "emr"]
    assert sources_of(tmp_path, place / "a") == ["article"]


def test_the_folders_name_changes_the_fingerprint_only_if_it_is_a_sub_domain(tmp_path: Path) -> None:
    for folder in ("emr", "notes", "ward"):
        written(tmp_path / folder, {"a.txt": RECORD.encode()})
    artifact = do(ArtifactStore(tmp_path / "s"), ingest, IngestParams(), corpus=RawInput(tmp_path / "emr"))
    assert metas(artifact) == [{"file": "a.txt", "row": 1}]
    emr, notes, ward = (RawInput(tmp_path / name).fingerprint for name in ("emr", "notes", "ward"))
    assert notes == ward != emr  # because its documents differ


def test_files_and_archives_may_be_named_after_records(tmp_path: Path) -> None:
    files = {"hospital/emr/a.txt": b"x", "病历.jsonl.gz": __import__("gzip").compress(jsonl([{"text": "x"}]))}
    files["records.zip"] = zipped({"a.txt": b"x"})
    assert ingested(tmp_path, files).to_table("documents")["source"].to_pylist() == ["emr"] * 3
    alone = written(tmp_path / "emr", {"a.txt": b"x"}) / "a.txt"
    assert sources_of(tmp_path, alone) == ["emr"]


@pytest.mark.parametrize("name", ["EMR", "emr ", "病历", "门诊病历", "ＥＭＲ", "Record"])
def test_rows_may_call_records_by_any_of_their_names(tmp_path: Path, name: str) -> None:
    rows = jsonl([{"text": RECORD, "kind": name}, {"text": RECORD, "kind": " Notes "}])
    artifact = ingested(tmp_path, {"a.jsonl": rows}, source_field="kind")
    assert artifact.to_table("documents")["source"].to_pylist() == ["emr", "Notes"]
    treated = do(ArtifactStore(tmp_path / "store"), deidentify_documents, DeidentifyParams(), documents=artifact)
    assert texts_of(treated) == ["住院号：〔编号〕，患者诉头痛三天。", RECORD]
    assert sources_of(tmp_path, tmp_path / "corpus", source=name) == ["emr", "emr"]
    assert sources_of(tmp_path, tmp_path / "corpus", source_of={"a.jsonl": name}) == ["emr", "emr"]


def test_parameters_accept_the_same_names_of_sources_as_rows() -> None:
    assert DeidentifyParams(sources=("EMR", "问诊", "ward 3")).sources == ("emr", "dialogue", "ward 3")
    assert CleanParams(profiles={"病历": {"min_characters": 7}}).rules("emr").min_characters == 7


def test_identifiers_in_an_unknown_source_are_reported_but_not_shown(tmp_path: Path) -> None:
    rows = [{"text": text, "kind": kind} for text, kind in (
        (RECORD, "ward3"), ("电话13812345678。", "ward3"), ("头痛三天。", "notes"),
        (RECORD, "article"), ("咨询电话13812345678。", "article"), ("咨询电话13812345678。", "textbook"),
    )]  # fmt: skip
    documents = ingested(tmp_path, {"a.jsonl": jsonl(rows)}, source_field="kind")
    params = DeidentifyParams()
    artifact = do(ArtifactStore(tmp_path / "store"), deidentify_documents, params, documents=documents)
    warning = untreated_warning(artifact.manifest.counters, params.sources)
    assert warning is not None and "article (1), ward3 (2)" in warning
    assert warning.startswith("No document was de-identified. Sources that are not")
    assert 'deidentify.sources=["emr","dialogue","article","ward3"]' in warning
    assert not any(secret in warning + str(artifact.manifest.counters) for secret in ("20190871", "13812345678"))
    treating = DeidentifyParams(sources=("article", "ward3"))
    rest = do(ArtifactStore(tmp_path / "store"), deidentify_documents, treating, documents=documents)
    assert untreated_warning(rest.manifest.counters, treating.sources) is None


def test_a_warning_is_only_about_the_sources_that_were_left() -> None:
    counters = {"documents_treated": 3, "untreated_with_identifiers_ward3": 2}
    warning = untreated_warning(counters, ("emr",))
    assert warning is not None and warning.startswith("Sources that are not de-identified hold")


def test_a_pattern_that_matches_no_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ingested(tmp_path, {"a.txt": b"x"}, source_of={"notes": "emr", "*.txt": "emr"})
    assert [record.message for record in caplog.records if "source_of" in record.message] == [
        f"ingest.source_of: 'notes' matches no file or folder of {tmp_path / 'corpus'}; correct the pattern"
    ]


def test_a_few_records_among_many_articles_are_reported(tmp_path: Path) -> None:
    rows = [{"text": f"高血压患者应当低盐饮食，第{n}篇。", "kind": "article"} for n in range(2_000)]
    rows[1_003:1_003] = [{"text": RECORD, "kind": "ward3"}]
    documents = ingested(tmp_path, {"a.jsonl": jsonl(rows)}, source_field="kind")
    params = DeidentifyParams()
    artifact = do(ArtifactStore(tmp_path / "store"), deidentify_documents, params, documents=documents)
    warning = untreated_warning(artifact.manifest.counters, params.sources)
    assert warning is not None and "ward3 (1)" in warning


@pytest.mark.parametrize(
    ("stage", "params", "key"),
    [
        (deidentify_documents, DeidentifyParams(sources=("emrr", "dialogue", "ward3")), "deidentify.sources"),
        (clean, CleanParams(profiles=dict.fromkeys(("emrr", "ward3", "textbook"), "embert")), "clean.profiles"),
    ],
)
def test_a_source_that_no_document_has_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stage: Any, params: Any, key: str
) -> None:
    rows = jsonl([{"text": RECORD, "kind": kind} for kind in ("病历", "ward3")])
    documents = ingested(tmp_path, {"a.jsonl": rows}, source_field="kind")
    with caplog.at_level(logging.WARNING):
        do(ArtifactStore(tmp_path / "store"), stage, params, documents=documents)
    warned = [record.message for record in caplog.records if record.name == "tasks.documents"]
    assert warned == [f"{key} names the source 'emrr', but no document has it; the documents' sources are emr, ward3"]
