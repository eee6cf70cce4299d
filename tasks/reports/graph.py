"""Stage `report_graph`: a page about a knowledge graph: what is in it, how it was fused, how it meets the corpus, and
which neighbours were found.

Holds `report.html`, which needs nothing from elsewhere, `summary.json`, and `table.json`: a row for each type.
Excerpts of the corpus are de-identified, whatever their source.
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
"""The most frequent relations; the others, often hundreds, are folded away."""


class ReportGraphParams(StageParams):
    """What stands at the head of the page, and how much is shown."""

    title: str = "Knowledge graph"
    samples: int = Field(default=8, ge=0, description="examples of each kind, drawn at random")
    top: int = Field(default=20, ge=0, description="rows of the most connected and of the most frequent entities")
    seed: int = 42


@stage(name="report_graph", version=1, params=ReportGraphParams)
def report_graph(inputs: Mapping[str, Artifact], params: ReportGraphParams, out: Output) -> None:
    """`inputs["graph"]` has the tables kg_entities and kg_triples and, where it was fused, kg_alignments and
    kg_conflicts. The others may lack, and their part of the page with them:

    - `neighbours`: an artifact of that stage;
    - `mentions`: of the stage `link`, and `segments`, the artifact (of segments or documents) that was linked, to show
      mentions in their context;
    - `entity_frequencies`: of that stage; without it they are counted from `mentions`;
    - `embeddings`: of the stage `kg_embeddings`.

    Raises:
        UserError: an artifact lacks a table, or `segments` is not what was linked.
    """
    summary = summarise(inputs, params.samples, params.top, params.seed)
    charts = _charts(summary["degrees"])
    page = render(TEMPLATE, title=params.title, charts=charts, shown_relations=SHOWN_RELATIONS, **summary)
    add_report(out, page, summary, type_table(summary))


def _charts(degrees: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The bars of each chart; their lengths are logarithms, as a few hubs stand against very many leaves."""
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
