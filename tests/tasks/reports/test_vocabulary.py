"""The page about a vocabulary: figures counted by hand, Table 2 of the paper, and no text that breaks the page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.text.near_duplicates import real_texts
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.files.raw_input import RawInput
from tasks.reports.vocabulary import COLUMNS, ReportVocabularyParams, report_vocabulary, table
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary
from tests.support.html_tags import Tags
from tests.support.text.tables import documents_artifact

TABLE_2 = {
    "免疫组化IHC测定TSHR阳性": ("ihc tshr", "i ##hc ts ##hr"),
    "ECOG评分4分者": ("ecog", "eco ##g"),
    "但不包括HIV/AIDS": ("aids", "ai ##ds"),
    "胸部增强CT及头颅MRI": ("mri", "mr ##i"),
}
"""eHealth's sentences, and the differences between its vocabulary and BERT's."""

BERT = [
    *SPECIAL_TOKENS,
    *dict.fromkeys(re.sub("[A-Z]", "", "".join(TABLE_2))),
    *["i", "##hc", "ts", "##hr", "eco", "##g", "hiv", "ai", "##ds", "ct", "mr", "##i"],
]
"""The part of BERT's vocabulary that the sentences need."""


def report(
    store: ArtifactStore, texts: Sequence[str], others: Path | None = None, size: int = 500, **params: Any
) -> Artifact:
    documents = documents_artifact(store, texts[::2], texts[1::2])
    words = run(count_words, store, CountWordsParams(), {"documents": documents}).artifact
    built = run(vocabulary, store, VocabularyParams(size=size), {"words": words}).artifact
    inputs: dict[str, Any] = {"vocabulary": built, "documents": documents}
    if others is not None:
        inputs["others"] = RawInput(others)
    return run(report_vocabulary, store, ReportVocabularyParams(**params), inputs).artifact


def summary_of(artifact: Artifact) -> dict[str, Any]:
    return json.loads(artifact.read_file("summary.json"))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    file = tmp_path / "bert.txt"
    file.write_text("\n".join(BERT), encoding="utf-8")
    return file


def test_table_2_of_the_paper(store: ArtifactStore, bert: Path) -> None:
    summary = summary_of(report(store, list(TABLE_2) * 20, bert))
    shown = {example["text"]: example["tokens"] for example in summary["examples"]}
    assert shown.keys() == TABLE_2.keys()
    for text, marked in TABLE_2.items():
        cuts = (shown[text]["this vocabulary"], shown[text]["bert.txt"])
        assert tuple(" ".join(token for token, differs in cut if differs) for cut in cuts) == marked


def test_the_figures_equal_counts_by_hand(store: ArtifactStore, bert: Path) -> None:
    artifact = report(store, list(TABLE_2) * 20, bert)
    summary = summary_of(artifact)
    ours, other = summary["vocabularies"]
    characters = sum(map(len, TABLE_2))
    assert summary["sample"] == {"documents": 80, "characters": 20 * characters}
    assert (ours["size"], other["size"]) == (len(ours_tokens(artifact)), len(BERT))
    assert ours["tokens_per_character"] == round((10 + 6 + 7 + 9) / characters, 4)
    assert other["tokens_per_character"] == round((12 + 7 + 8 + 10) / characters, 4)
    assert (ours["tokens_per_run"], other["tokens_per_run"]) == (1, round(12 / 7, 4))
    assert ours["abbreviations"] == 7  # ihc tshr ecog hiv aids ct mri
    assert (ours["abbreviations_whole"], other["abbreviations_whole"]) == (1, round(2 / 7, 4))
    assert (ours["pieces_per_abbreviation"], other["pieces_per_abbreviation"]) == (1, round(12 / 7, 4))
    assert ours["unknown_share"] == other["unknown_share"] == 0
    assert [(row["source"], row["documents"], row["tokens"]) for row in summary["sources"]] == [("article", 80, 640)]
    rows = json.loads(artifact.read_file("table.json"))
    assert rows == table(summary)
    assert list(rows[0]) == list(COLUMNS.values())


def ours_tokens(artifact: Artifact) -> list[str]:
    found = ArtifactStore(artifact.store_root).latest("vocabulary")
    assert found is not None
    return found.to_table()["token"].to_pylist()


def test_a_vocabulary_without_any_token_of_the_text(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(SPECIAL_TOKENS), encoding="utf-8")
    summary = summary_of(report(store, list(TABLE_2) * 20, file))
    assert all(differs for example in summary["examples"] for cut in example["tokens"].values() for _, differs in cut)
    row = summary["vocabularies"][1]
    assert (row["unknown_share"], row["abbreviations_whole"], row["pieces_per_abbreviation"]) == (1, 0, 1)


def test_without_others_and_without_abbreviations(store: ArtifactStore) -> None:
    artifact = report(store, ["患者头痛三天，无发热。"] * 10)
    summary = summary_of(artifact)
    assert [row["vocabulary"] for row in summary["vocabularies"]] == ["this vocabulary"]
    assert summary["abbreviations"] == []
    assert [example["text"] for example in summary["examples"]] == ["患者头痛三天，无发热"]
    assert "compare=PATH" in artifact.read_file("report.html").decode()


def test_the_sample_is_bounded_and_the_same_for_any_parts(tmp_path: Path) -> None:
    texts = [f"第{number}例，查CT及MRI。" for number in range(1_000)]
    found = []
    for name, order in (("a", texts), ("b", texts[::-1])):
        artifact = report(ArtifactStore(tmp_path / name), order, sample_documents=100, abbreviation_documents=300)
        found.append({key: value for key, value in summary_of(artifact).items() if key != "examples"})
    # Ids of these documents do not depend on their place.
    assert found[0] == found[1]
    assert found[0]["sample"]["documents"] == 100
    assert 300 <= found[0]["abbreviations"][0]["count"] < 450


def test_the_page_is_complete_and_shows_no_identifier(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "<b>.txt"
    file.write_text("\n".join([*BERT, "<script>"]), encoding="utf-8")
    texts = ["<script>CT检查</script>，电话13812345678。", "查MRI<b>，请拨13912345678联系"] * 20
    artifact = report(store, texts, file, title="词 <b>&")
    page = artifact.read_file("report.html").decode()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "b"} & tags.seen
    assert "词 &lt;b&gt;&amp;" in page
    assert "tensor2tensor" in page, "how ours departs from the paper's builder"
    for name in ("report.html", "summary.json"):
        assert not re.search(r"1[3-9]\d{9}", artifact.read_file(name).decode())


def test_the_coverage_of_a_dictionary(store: ArtifactStore, bert: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("头颅MRI\n评分\n\n头颅MRI\n龘病\n", encoding="utf-8")
    documents = documents_artifact(store, list(TABLE_2) * 20)
    words = run(count_words, store, CountWordsParams(), {"documents": documents}).artifact
    built = run(vocabulary, store, VocabularyParams(size=500), {"words": words}).artifact
    inputs = {"vocabulary": built, "documents": documents, "others": RawInput(bert)}
    inputs["terms"] = RawInput(tmp_path / "terms.txt")
    artifact = run(report_vocabulary, store, ReportVocabularyParams(), inputs).artifact
    assert summary_of(artifact)["terms"] == {
        "count": 3,
        "vocabularies": [
            {"vocabulary": "this vocabulary", "covered": 0.6667, "pieces_per_term": round((3 + 2 + 2) / 3, 4)},
            {"vocabulary": "bert.txt", "covered": 0.6667, "pieces_per_term": round((4 + 2 + 2) / 3, 4)},
        ],
    }
    assert "3 names and terms" in artifact.read_file("report.html").decode()


def test_an_invalid_vocabulary_error_names_the_line(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*BERT, "ct"]), encoding="utf-8")
    with pytest.raises(UserError, match=r"vocab\.txt, line \d+: 'ct' is already on line \d+"):
        report(store, list(TABLE_2) * 20, file)


def test_frequent_abbreviations_of_real_text_are_whole(shared_data: Path, tmp_path: Path, store: ArtifactStore) -> None:
    texts = real_texts(shared_data)[:30_000]
    artifact = report(store, texts, size=9_000, sample_documents=500)
    summary = summary_of(artifact)
    pieces = {row["text"]: row["pieces"]["this vocabulary"] for row in summary["abbreviations"]}
    assert {"ct", "mri", "hiv", "hbv", "dna"} <= pieces.keys()
    assert all(cut == [run] for run, cut in pieces.items())
    assert {"aids", "ecog", "mri", "ct", "hiv"} <= set(ours_tokens(artifact))
    assert summary["vocabularies"][0]["abbreviations_whole"] == 1
    assert summary["vocabularies"][0]["unknown_share"] < 0.005
