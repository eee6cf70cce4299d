"""Stage `report_vocabulary`: a page about a vocabulary on its corpus, compared with other vocabularies.

The artifact holds `report.html`, which needs no other file, `summary.json`, and `table.json`: a row per vocabulary.
Example sentences are de-identified, whatever their source.

One process: memory grows with the sample of documents and the names of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.reports.vocabulary_figures import Sizes, summarise
from tasks.segment.words import read_terms
from tasks.vocabulary.files import read_vocabularies

TEMPLATE = Path(__file__).with_name("vocabulary.html.j2")

COLUMNS = {
    "vocabulary": "vocabulary",
    "size": "size",
    "tokens_per_word": "tokens per word",
    "tokens_per_character": "tokens per character",
    "tokens_per_run": "tokens per run of letters",
    "unknown_share": "share of [UNK]",
    "abbreviations_whole": "abbreviations kept whole",
    "pieces_per_abbreviation": "pieces per abbreviation",
}
"""Titles of the table's columns, by figure."""


class ReportVocabularyParams(StageParams):
    """Title of the page, and size and seed of the samples."""

    title: str = "Vocabulary"
    """Title of the page."""
    sample_documents: int = Field(default=5_000, ge=1, description="Number of documents that are tokenised.")
    abbreviation_documents: int = Field(
        default=200_000, ge=1, description="Number of documents searched for abbreviations."
    )
    min_abbreviation: int = Field(default=20, ge=1, description="Occurrences in capitals that make an abbreviation.")
    seed: int = 42
    """Seed of the samples of documents."""


@stage(name="report_vocabulary", version=5, params=ReportVocabularyParams, heavy=True)
def report_vocabulary(inputs: Mapping[str, Any], params: ReportVocabularyParams, out: Output) -> None:
    """Write the page about the artifacts `inputs["vocabulary"]` and `inputs["documents"]`.

    The raw input `others` contains vocabularies to compare with, each a `vocab.txt`. The raw input `terms` contains
    terms to be covered, as do the names and aliases of `entities`, an artifact with the table kg_entities. All three
    are optional.

    Raises:
        UserError: a file of `others` is not a vocabulary, or one of `terms` is not UTF-8.
    """
    others = read_vocabularies(inputs["others"]) if "others" in inputs else {}
    sizes = Sizes(**params.model_dump(include=set(Sizes._fields)))
    terms = read_terms(inputs["terms"]) if "terms" in inputs else []
    if "entities" in inputs:
        terms = sorted({*terms, *_names_of(inputs["entities"])})
    summary = summarise(inputs["vocabulary"], inputs["documents"], others, sizes, terms)
    page = render(TEMPLATE, title=params.title, **summary)
    add_report(out, page, summary, table(summary))


def table(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per vocabulary."""
    return [{title: row[key] for key, title in COLUMNS.items()} for row in summary["vocabularies"]]


def _names_of(entities: Artifact) -> Iterator[str]:
    """Yield names and aliases of a fused graph."""
    for row in entities.scan("kg_entities").select("name", "aliases").collect().iter_rows():
        yield row[0]
        yield from row[1]
