"""Stage `report_graph`: a page about a knowledge graph: its content, fusion, links to the corpus, and neighbours.

The artifact holds `report.html`, which needs no other file, `summary.json`, and `table.json`: a row for each type.
Excerpts of the corpus are de-identified, whatever their source.

One process: triples and mentions are streamed, and memory grows with the entities and conflicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.reports.graph_figures import summarise, type_table

TEMPLATE = Path(__file__).with_name("graph.html.j2")

SHOWN_RELATIONS = 30
"""Number of the most frequent relations shown; the others, often hundreds, are collapsed."""


class ReportGraphParams(StageParams):
    """Title of the page, and size and seed of its samples."""

    title: str = "Knowledge graph"
    """Title of the page."""
    samples: int = Field(default=8, ge=0, description="number of random examples of each kind")
    top: int = Field(default=20, ge=0, description="number of most connected and of most frequent entities")
    seed: int = 42
    """Seed of the drawn examples."""


@stage(name="report_graph", version=2, params=ReportGraphParams)
def report_graph(inputs: Mapping[str, Artifact], params: ReportGraphParams, out: Output) -> None:
    """Write the page about `inputs["graph"]`, which has the tables kg_entities and kg_triples.

    A fused graph also has kg_alignments and kg_conflicts. The other inputs are optional, each with its part of the
    page:

    - `neighbours`: an artifact of that stage;
    - `mentions`: one of the stage `link`, and `segments`, the linked artifact (of segments or documents), to show
      mentions in their context;
    - `entity_frequencies`: one of that stage; without it they are counted from `mentions`;
    - `embeddings`: one of the stage `kg_embeddings`.

    Raises:
        UserError: an artifact lacks a table, or `segments` is not the linked artifact.
    """
    summary = summarise(inputs, params.samples, params.top, params.seed)
    charts = _charts(summary["degrees"])
    page = render(TEMPLATE, title=params.title, charts=charts, shown_relations=SHOWN_RELATIONS, **summary)
    add_report(out, page, summary, type_table(summary))


def _charts(degrees: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the bars of each chart; their lengths are logarithmic, because there are few hubs and very many leaves."""
    names = _bin_names(degrees["bins"])
    titles = {"degree": "all triples", "head_of": "as head", "tail_of": "as tail"}
    return {
        title: [
            {"name": name, "count": count, "width": round(100 * math.log1p(count) / math.log1p(max(degrees[key])), 2)}
            for name, count in zip(names, degrees[key], strict=True)
        ]
        for key, title in titles.items()
        if any(degrees[key])
    }


def _bin_names(borders: Sequence[int]) -> list[str]:
    ends = [next_border - 1 for next_border in [*borders[1:], 2 * (borders[-1] or 1)]]
    return [f"{low:,}" if low == end else f"{low:,}-{end:,}" for low, end in zip(borders, ends, strict=True)]
