"""The page of a run over a corpus: what belongs to the run is on it, and not in the artifact."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from tasks.clean.stage import CleanParams, clean
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tasks.reports.corpus import ReportParams, report_corpus
from tasks.reports.corpus_run import changes, write_run_page
from tasks.segment.stage import SegmentParams, segment
from tests.support.html_tags import Tags
from tests.support.text.reading import jsonl, written

TEXT = "高血压患者应当长期控制血压，低盐饮食，规律运动，按时服药，定期复查，避免情绪激动和过度劳累。"


def refreshed(folder: Path, store: ArtifactStore) -> Artifact:
    made = {"ingest": run(ingest, store, IngestParams(), {"corpus": RawInput(folder)}).artifact}
    made["clean"] = run(clean, store, CleanParams(), {"documents": made["ingest"]}).artifact
    made["segment"] = run(segment, store, SegmentParams(min_tokens=8), {"documents": made["clean"]}).artifact
    return run(report_corpus, store, ReportParams(), made).artifact


def page_of(store: ArtifactStore, report: Artifact, day: int, corpus: str = "/data/texts") -> str:
    location = write_run_page(store, report, corpus, {"preset": "default"}, datetime(2026, 11, day, 3, tzinfo=UTC))
    page = Path(location).read_text(encoding="utf-8")
    Tags().feed(page)
    return page


def test_a_run_has_date_files_parameters_and_change(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    folder = written(tmp_path / "corpus", {"article/a.jsonl": jsonl([{"text": TEXT}]), "emr/b.txt": TEXT.encode()})
    first = refreshed(folder, store)
    page = page_of(store, first, 2)
    assert "2026-11-02" in page and "/data/texts" in page and "The first run over these files." in page
    assert "Nothing has changed since 2026-11-02" in page_of(store, first, 9)
    (folder / "emr/b.txt").unlink()
    written(folder, {"article/c.jsonl": jsonl([{"text": f"{TEXT}{number}"} for number in range(3)])})
    second = page_of(store, refreshed(folder, store), 16)
    assert "Change since 2026-11-09" in second
    assert '>article</th><td class="n">4 <span class="quiet">+3</span></td>' in second
    assert '>emr</th><td class="n">0 <span class="lost-text">-1</span></td>' in second
    assert "The first run" in page_of(store, first, 17, corpus="/data/other")
    assert "2026-11" not in first.read_file("report.html").decode()


def test_a_report_that_is_gone_is_said(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    folder = written(tmp_path / "corpus", {"a.txt": TEXT.encode()})
    first = refreshed(folder, store)
    page_of(store, first, 2)
    written(folder, {"b.txt": (TEXT * 2).encode()})
    second = refreshed(folder, store)
    (Path(first.path) / "manifest.json").unlink()
    assert "is no longer in the store" in page_of(store, second, 9)


def test_changes_name_sources_that_came_and_went() -> None:
    figures = {"bytes": 1, "segments": 1, "tokens": 1}
    old = [{"source": "emr", "documents": 2, **figures}, {"source": "all", "documents": 2, **figures}]
    new = [{"source": "article", "documents": 5, **figures}, {"source": "all", "documents": 5, **figures}]
    found = {row["source"]: row["documents"] for row in changes(old, new)}
    assert found == {"article": (5, 5), "emr": (0, -2), "all": (5, 3)}


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    root = tmp_path_factory.mktemp("lossy")
    rows = [{"text": f"{TEXT}{number}"} for number in range(4)]
    files = {
        "article/kept.jsonl": jsonl(rows),
        "emr/lost.jsonl": jsonl([{"病历": TEXT}] * 8 + rows[:1]),
        "dialogue/电话13812345678.jsonl": jsonl([{"病历": TEXT}] * 3),
    }
    return refreshed(written(root / "corpus", files), ArtifactStore(root / "store"))


def test_sources_and_files_that_lost_most_rows_are_marked(lossy: Artifact) -> None:
    page = lossy.read_file("report.html").decode()
    sources = {row["source"]: row for row in json.loads(lossy.read_file("summary.json"))["sources"]}
    assert [(name, row["rows"], row["documents"]) for name, row in sources.items()] == [
        ("article", 4, 4),
        ("dialogue", 3, 0),
        ("emr", 9, 1),
        ("all", 16, 5),
    ]
    assert sources["dialogue"]["lost"] == 1 and sources["article"]["lost"] == 0
    assert '<tr class="lost"><th scope="row">emr</th><td class="n">9</td><td class="n lost">88.89 % (most)</td>' in page
    assert '<tr><th scope="row">article</th><td class="n">4</td><td class="n lost">0.00 %</td>' in page
    assert '<tr class="lost"><th scope="row">emr/lost.jsonl</th><td class="n">9</td><td class="n">8</td>' in page
    assert "13812345678" not in page


def test_tables_have_captions_scopes_and_regions(lossy: Artifact) -> None:
    page = lossy.read_file("report.html").decode()
    assert '<table><caption class="unseen">Sub-domains</caption>' in page
    assert page.count("<table>") == page.count('<caption class="unseen">')
    assert page.count("<th ") == len(re.findall('<th scope="(?:col|row)"', page)) and "<th>" not in page
    rows = re.findall(r"<tr[^>]*>\s*(<\w+[^>]*>)", page)
    assert len(rows) > 10 and [one for one in rows if not one.startswith('<th scope="')] == []
    assert '<div class="scroll" tabindex="0" role="region" aria-label="Steps">' in page
