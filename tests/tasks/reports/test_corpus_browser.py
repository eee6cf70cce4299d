"""The page about a corpus in headless Chromium: it is laid out without an error and within the window."""

from __future__ import annotations

import html
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.clean.stage import CleanParams, clean
from tasks.decontaminate.stage import DecontaminateParams, decontaminate
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tasks.reports.corpus import ReportParams, report_corpus
from tasks.segment.stage import SegmentParams, segment
from tests.support.text.reading import jsonl, written

CHROMIUM = next(filter(None, map(shutil.which, ("/usr/bin/chromium", "chromium", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is on this machine")

WIDTH, HEIGHT = 1280, 2000
PATIENCE = 120
"""Seconds after which Chromium counts as hung; it usually takes two or three."""

ARTICLE = "高血压患者应当长期控制血压，低盐饮食，规律运动，按时服药，定期复查，避免情绪激动和过度劳累。"
QUESTION = "患者：电话13812345678，头痛三天，伴有恶心，请问要做哪些检查？\n医生：建议先查血常规，再做头部的影像检查。"
LONG = "NTRK" * 400
"""A word at which no line can break."""

PROBE = """<script>
addEventListener("load", () => {
  const page = document.documentElement;
  const seen = {width: innerWidth, needed: page.scrollWidth, height: page.scrollHeight};
  seen.open = [...document.querySelectorAll("details")].map(one => { one.open = true; return one.open; }).length;
  seen.neededOpen = page.scrollWidth;
  seen.bars = [...document.querySelectorAll(".bar i")].filter(one => one.getBoundingClientRect().width > 20).length;
  document.body.dataset.seen = JSON.stringify(seen);
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with content in every section, and with words that are too long for any column."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [f"{ARTICLE}祝您健康。", f"{ARTICLE}祝您早日康复。", f"{ARTICLE * 9}{LONG}", LONG, "only English " * 20]
    files = {
        "article/a.jsonl": jsonl([{"text": text} for text in texts]) + b"{broken\n",
        "dialogue/b.jsonl": jsonl([{"text": QUESTION}, {"text": QUESTION}]),
        f"textbook/{'很长的文件名' * 10}.csv": b'text\n"open\n',
    }
    (folder / "test.txt").write_text("建议先查血常规，再做头部的影像检查。", encoding="utf-8")
    store = ArtifactStore(folder / "store")
    stages: dict[str, Any] = {}

    def do(work: Any, params: Any, **inputs: Any) -> Any:
        stages[work.name] = run(work, store, params, inputs).artifact
        return stages[work.name]

    found = do(ingest, IngestParams(), corpus=RawInput(written(folder / "given", files)))
    found = do(clean, CleanParams(), documents=found)
    found = do(deidentify_documents, DeidentifyParams(), documents=found)
    found = do(deduplicate, DeduplicateParams(), documents=found)
    params = DecontaminateParams(min_share=0)
    found = do(decontaminate, params, documents=found, benchmarks=RawInput(folder / "test.txt"))
    do(segment, SegmentParams(min_tokens=20), documents=found)
    report = run(report_corpus, store, ReportParams(title="语料 <b>&"), stages).artifact
    return report.read_file("report.html").decode()


def chromium(file: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Open a local file without a network."""
    assert CHROMIUM is not None
    command = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *("--hide-scrollbars", "--enable-logging=stderr", f"--window-size={WIDTH},{HEIGHT}"),
        *(f"--user-data-dir={file.parent / 'profile'}", *options, file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done


def seen_by_probe(dom: str) -> dict[str, int]:
    """Return the values that `PROBE` wrote into the page."""
    return json.loads(html.unescape(dom.partition('data-seen="')[2].partition('"')[0]))


def test_the_page_fits_the_window_and_has_no_error(page: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    done = chromium(file, "--dump-dom")
    console = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    assert console == []
    dom = done.stdout.decode()
    assert "<title>语料 &lt;b&gt;&amp;</title>" in dom and "<h1>语料 &lt;b&gt;&amp;</h1>" in dom
    assert dom.count("<table>") == 7 and dom.count("None.") == dom.count("Nothing.") == 0
    seen = seen_by_probe(dom)
    assert seen["width"] == WIDTH
    assert seen["needed"] <= WIDTH and seen["neededOpen"] <= WIDTH
    assert seen["height"] > 1000 and seen["open"] > 3 and seen["bars"] > 1


def test_errors_and_pages_that_are_too_wide_are_detected(tmp_path: Path) -> None:
    file = tmp_path / "faulty.html"
    file.write_text(f"<div style='width:3000px'>x</div><script>nothing.here()</script>{PROBE}", encoding="utf-8")
    done = chromium(file, "--dump-dom")
    assert b"CONSOLE" in done.stderr
    assert seen_by_probe(done.stdout.decode())["needed"] >= 3000


def test_a_picture_of_the_page_is_drawn(page: str, tmp_path: Path) -> None:
    file, picture = tmp_path / "report.html", tmp_path / "report.png"
    file.write_text(page, encoding="utf-8")
    chromium(file, f"--screenshot={picture}")
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (WIDTH, HEIGHT)
    assert len(data) > 50_000  # an empty one takes 12,000
