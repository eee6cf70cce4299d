"""The page about a corpus: its figures equal those of the artifacts, and no text breaks it or leaks through it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, run, stage
from tasks.clean.stage import CleanParams, clean
from tasks.decontaminate.stage import DecontaminateParams, decontaminate
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.documents import make_document
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tasks.reports.corpus import ReportParams, report_corpus, table_1
from tasks.segment.stage import SegmentParams, segment
from tests.support.html_tags import Tags
from tests.support.text.reading import written

DIALOGUE = "患者：我的电话是13812345678，头痛三天，伴有恶心和发热，请问要做哪些检查？\n医生：建议先查血常规。"
ARTICLE = "高血压患者应当长期控制血压，低盐饮食，规律运动，按时服药，定期复查，避免情绪激动和过度劳累。"
ROWS = (
    ("dialogue", DIALOGUE),
    ("dialogue", DIALOGUE),
    ("article", ARTICLE),
    ("article", ARTICLE + "<script>alert(1)</script>祝您健康。"),
    ("article", ARTICLE + "<script>alert(1)</script>祝您早日康复。"),
    ("encyclopedia", "only English & 13912345678, nothing else to be read in here at all, whoever may look at it"),
)


class RowsParams(StageParams):
    rows: tuple[tuple[str, str], ...] = ROWS
    bytes_per_part: int = 67108864
    folder: str = "王伟病历/"


@stage(name="ingest", version=1, params=RowsParams, tables=("documents",))
def given_rows(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
    with out.part() as part:
        part.write(
            "documents", [make_document(source, "", text, {"row": i}) for i, (source, text) in enumerate(params.rows)]
        )


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    return made_of(RowsParams(), ArtifactStore(tmp_path_factory.mktemp("store")))


def made_of(rows: RowsParams, store: ArtifactStore) -> dict[str, Artifact]:
    made = {"ingest": run(given_rows, store, rows, {}).artifact}
    made["clean"] = run(clean, store, CleanParams(), {"documents": made["ingest"]}).artifact
    made["deidentify"] = run(deidentify_documents, store, DeidentifyParams(), {"documents": made["clean"]}).artifact
    made["deduplicate"] = run(deduplicate, store, DeduplicateParams(), {"documents": made["deidentify"]}).artifact
    made["segment"] = run(segment, store, SegmentParams(min_tokens=20), {"documents": made["deduplicate"]}).artifact
    return made


@pytest.fixture(scope="module")
def report(stages: dict[str, Artifact]) -> Artifact:
    store = ArtifactStore(stages["ingest"].store_root)
    return run(report_corpus, store, ReportParams(title="病 <b>&"), stages).artifact


def test_the_figures_equal_those_of_the_artifacts(report: Artifact, stages: dict[str, Artifact]) -> None:
    summary = json.loads(report.read_file("summary.json"))
    documents = stages["deduplicate"].to_table("documents").to_pylist()
    segments = stages["segment"].to_table("segments").to_pylist()
    for row in summary["sources"]:
        own = [d for d in documents if row["source"] in (d["source"], "all")]
        cut = [s for s in segments if row["source"] in (s["source"], "all")]
        assert row["documents"] == len(own)
        assert row["bytes"] == sum(len(d["text"].encode()) for d in own)
        assert row["characters"] == sum(len(d["text"]) for d in own)
        assert row["segments"] == len(cut)
        assert row["tokens"] == sum(s["tokens"] for s in cut)
    assert [row["source"] for row in summary["sources"]] == ["article", "dialogue", "encyclopedia", "all"]
    assert [step["documents"] for step in summary["steps"]] == [6, 5, 5, 2]
    lengths = summary["document_lengths"]
    assert {source: sum(lengths[source]) for source in lengths} == {"article": 1, "dialogue": 1}
    assert {(row["source"], row["kind"], row["count"]) for row in summary["duplicates"]} == {
        ("dialogue", "exact", 1),
        ("article", "near", 2),
    }
    assert [(row["stage"], row["reason"], row["source"], row["count"]) for row in summary["dropped"]] == [
        ("clean", "little_chinese", "encyclopedia", 1)
    ]
    told = [{"kind": "mobile", "what": "mobile telephone numbers", "operator": "placeholder", "count": 2}]
    assert summary["replaced"] == told
    assert summary["anonymity"] == []  # no document tells age and sex


def test_table_1_has_the_columns_of_the_paper(report: Artifact) -> None:
    rows = json.loads(report.read_file("table.json"))
    assert rows == table_1(json.loads(report.read_file("summary.json")))
    assert {"sub-domain", "size, MB", "tokens"} <= rows[0].keys()


def test_the_page_is_complete_and_escapes_markup_of_texts(report: Artifact) -> None:
    page = report.read_file("report.html").decode()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen and "b" not in tags.seen
    assert "病 &lt;b&gt;&amp;" in page
    assert "祝您" in page


def test_the_page_shows_no_identifier_of_any_source(report: Artifact) -> None:
    for name in ("report.html", "summary.json"):
        text = report.read_file(name).decode()
        assert not re.search(r"1[3-9]\d{9}", text)
        assert "〔手机号〕" in text


def test_the_page_names_sources_whose_identifiers_were_left(report: Artifact, tmp_path: Path) -> None:
    assert json.loads(report.read_file("summary.json"))["untreated"] == []
    heading = "Sources that are not de-identified, with identifiers of persons"
    assert heading not in report.read_file("report.html").decode()
    rows = RowsParams(rows=(*ROWS, ("article", "住院号：20190871，患者诉头痛三天，伴有恶心，血压升高，请按时服药。")))
    store = ArtifactStore(tmp_path / "store")
    left = run(report_corpus, store, ReportParams(), made_of(rows, store)).artifact
    assert json.loads(left.read_file("summary.json"))["untreated"] == [{"source": "article", "documents": 1}]
    page = left.read_file("report.html").decode()
    assert heading in page and "20190871" not in page


def test_numbers_of_parameters_are_not_taken_for_identifiers(report: Artifact) -> None:
    (ingest,) = [one for one in json.loads(report.read_file("summary.json"))["parameters"] if one["stage"] == "ingest"]
    shown = json.loads(ingest["parameters"])
    assert shown["bytes_per_part"] == 67108864
    assert shown["folder"] == "〔姓名〕病历/"


def test_the_page_names_rejected_files_and_rows(tmp_path: Path) -> None:
    files = {"article/a.jsonl": b'{"text": "x"}\n{"text": \n', "emr/王小明_13812345678.pdf": b"x"}
    files["article/b.txt"] = ARTICLE.encode()
    store = ArtifactStore(tmp_path / "store")
    corpus = RawInput(written(tmp_path / "corpus", files))
    stages = {"ingest": run(ingest, store, IngestParams(), {"corpus": corpus}).artifact}
    stages["segment"] = run(segment, store, SegmentParams(min_tokens=20), {"documents": stages["ingest"]}).artifact
    artifact = run(report_corpus, store, ReportParams(), stages).artifact
    dropped = json.loads(artifact.read_file("summary.json"))["dropped"]
    places = {(row["reason"], sample["place"]) for row in dropped for sample in row["samples"]}
    assert ("invalid_json", "article/a.jsonl#2") in places
    assert ("unreadable_file", "emr/〔姓名〕_〔手机号〕.pdf") in places
    page = artifact.read_file("report.html").decode()
    assert "article/a.jsonl#2" in page and "13812345678" not in page


@pytest.mark.parametrize("shift", range(0, 19, 3))
def test_no_part_of_an_identifier_at_the_end_of_an_excerpt_is_shown(store: ArtifactStore, shift: int) -> None:
    """Placeholders are short: the excerpt may reach the position where the text was cut before de-identification."""
    numbers = "，".join(identity_card(number) for number in range(30))
    text = f"{'名' * shift}单：{numbers}。{ARTICLE * 20}"
    stages = made_of(RowsParams(rows=(("article", text), ("article", text), ("article", "x，" + numbers))), store)
    summary = json.loads(run(report_corpus, store, ReportParams(), stages).artifact.read_file("summary.json"))
    (sample,) = summary["duplicates"][0]["samples"]
    excerpts = [sample["dropped"], sample["kept"], *(row["samples"][0]["excerpt"] for row in summary["dropped"])]
    assert len(excerpts) == 3
    for excerpt in excerpts:
        assert "〔身份证号〕" in excerpt and excerpt.endswith("…")
        assert not re.search(r"\d", excerpt)


def identity_card(number: int) -> str:
    """Return a made-up number with its check digit."""
    body = f"110101{1950 + number}0101{number:03d}"
    weights = [2 ** (17 - place) % 11 for place in range(17)]
    return body + "10X98765432"[sum(int(digit) * weight for digit, weight in zip(body, weights, strict=True)) % 11]


def test_the_page_says_if_overlaps_were_searched(
    report: Artifact, stages: dict[str, Artifact], store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "dev.txt").write_text("肺炎支原体感染可用阿奇霉素治疗，疗程十天。", encoding="utf-8")
    inputs = {"documents": stages["deduplicate"], "benchmarks": RawInput(tmp_path / "dev.txt")}
    looked = {**stages, "decontaminate": run(decontaminate, store, DecontaminateParams(), inputs).artifact}
    looked["segment"] = looked.pop("segment")  # the stages are in the order of the flow
    page = run(report_corpus, store, ReportParams(), looked).artifact.read_file("report.html").decode()
    assert "None was found." in page and "No benchmark was named." not in page
    assert "No benchmark was named." in report.read_file("report.html").decode()


def test_the_same_corpus_gives_the_same_page(
    report: Artifact, stages: dict[str, Artifact], store: ArtifactStore
) -> None:
    again = run(report_corpus, store, ReportParams(title="病 <b>&"), stages).artifact
    assert again.manifest.files == report.manifest.files
