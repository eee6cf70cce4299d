"""The page about an entity vocabulary: figures counted by hand, precision against held-out names, and safe text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.entities.stage import EntitiesParams, entities
from tasks.files.raw_input import RawInput
from tasks.knowledge.thesaurus import ThesaurusParams, thesaurus
from tasks.reports.entities import ReportEntitiesParams, report_entities
from tests.support.graphs.entity_corpus import GRAPH_ROWS, TEXTS, segments_of
from tests.support.html_tags import Tags
from tests.support.text.stages import do
from tests.support.training.given_tables import GivenTable, given_graph, given_phrases

PHRASES = given_phrases(
    (("糖尿病",), 0.95, "kg"),
    (("甲亢",), 0.91, "none"),
    (("血", "常规"), 0.85, "none"),
    (("奥美", "拉唑"), 0.82, "none"),
    (("复查", "血", "常规"), 0.55, "wiki"),
    (("患者", "常"), 0.2, "none"),
)


def report(store: ArtifactStore, phrases: GivenTable | None = PHRASES, **inputs: Any) -> Artifact:
    graph = given_graph(*GRAPH_ROWS, ("X1", "<script>alert('病')</script>", (), "<b>"))
    given: dict[str, Any] = {"kg_entities": graph, "segments": segments_of(store, TEXTS)}
    if phrases is not None:
        given["phrases"] = inputs["phrases"] = phrases
    made = do(store, entities, EntitiesParams(), **given)
    return do(store, report_entities, ReportEntitiesParams(title="病 & <i>"), entities=made, **inputs)


def summary_of(artifact: Artifact) -> dict[str, Any]:
    return json.loads(artifact.read_file("summary.json"))


def test_the_figures_equal_counts_by_hand(store: ArtifactStore) -> None:
    summary = summary_of(report(store))
    text = "".join(TEXTS)
    assert summary["rows"] == 11
    assert {row["origin"]: (row["surfaces"], row["entities"]) for row in summary["origins"]} == {
        "both": (3, 3),
        "kg": (6, 6),
        "phrase": (2, 2),
    }
    types = {row["type"]: row for row in summary["types"]}
    assert (types["disease"]["surfaces"], types["disease"]["entities"], types["drug"]["surfaces"]) == (5, 3, 1)
    assert types["drug"]["in_corpus"] == ("奥美拉唑" in text)
    assert {(row["reason"], row["count"], *row["samples"]) for row in summary["dropped"]} == {
        ("single_letter", 1, "A"),
        ("low_quality", 1, "患者常"),
    }
    assert sum(row["surfaces"] for row in summary["pieces"]) == 11
    for row in summary["long_entities"]:
        assert "".join(row["pieces"]) == row["surface"] and text.count(row["surface"]) == row["frequency"] > 0
    assert {"atomic": "血常规", "count": 1} in summary["atomic_terms"]
    assert summary["thesaurus"] is None


def precision_of(artifact: Artifact) -> dict[float, tuple[Any, ...]]:
    rows = json.loads(artifact.read_file("table.json"))
    return {row["quality from"]: tuple(row.values())[1:] for row in rows if row["phrases"]}


def test_precision_is_that_of_the_phrases_without_a_label(store: ArtifactStore) -> None:
    assert precision_of(report(store)) == {
        0.9: (2, 2, 1, 1, 1.0, 1.0),
        0.8: (2, 1, 2, 1, 0.5, 0.6667),
        0.5: (1, 0, 0, 0, None, 0.6667),
        0.0: (1, 0, 1, 0, 0.0, 0.5),
    }


def test_held_out_names_can_be_given(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "held_out.txt"
    file.write_text("血常规\n糖尿病\n没有的\n", encoding="utf-8")
    found = precision_of(report(store, held_out=RawInput(file)))
    assert found[0.9] == (2, 2, 1, 0, 0.0, 0.0)
    assert found[0.8] == (2, 1, 2, 1, 0.5, 0.3333)
    file.write_bytes("血常规".encode("gb18030"))
    with pytest.raises(UserError, match=r"held_out\.txt is not UTF-8"):
        report(store, held_out=RawInput(file))


def test_the_thesaurus_is_shown_if_there_is_one(store: ArtifactStore) -> None:
    synonyms = do(store, thesaurus, ThesaurusParams(), kg_entities=given_graph(*GRAPH_ROWS))
    shown = summary_of(report(store, synonyms=synonyms))["thesaurus"]
    assert (shown["groups"], shown["surfaces"], shown["ambiguous"], shown["largest"]) == (3, 6, 0, 2)
    assert [row["type"] for row in shown["by_type"]] == ["disease", "drug"]
    assert {"type": "disease", "surface": ["消渴病", "糖尿病"]} in shown["samples"]


def test_the_page_needs_no_phrases(store: ArtifactStore) -> None:
    artifact = report(store, phrases=None)
    assert summary_of(artifact)["bands"] == [] == json.loads(artifact.read_file("table.json"))
    assert "No phrases were mined" in artifact.read_file("report.html").decode()


def test_no_text_breaks_the_page(store: ArtifactStore) -> None:
    page = report(store).read_file("report.html").decode()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "b", "i"} & tags.seen
    assert "&lt;b&gt;" in page and "<title>病 &amp; &lt;i&gt;</title>" in page


def test_the_page_is_reproducible(store: ArtifactStore, tmp_path: Path) -> None:
    again = report(ArtifactStore(tmp_path / "again"))
    assert again.read_file("report.html") == report(store).read_file("report.html")
