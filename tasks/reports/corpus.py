"""Stage `report_corpus`: a page about a corpus, in one HTML file, and its figures beside it.

Holds `report.html`, which needs nothing from elsewhere, `summary.json`, and `table.json`: eHealth's Table 1 for this
corpus. Excerpts are de-identified, whatever their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.reports.corpus_figures import summarise
from tasks.segment.lengths import LENGTH_BINS

TEMPLATE = Path(__file__).with_name("corpus.html.j2")


class ReportParams(StageParams):
    """What stands at the head of the page."""

    title: str = "Corpus"


@stage(name="report_corpus", version=5, params=ReportParams)
def report_corpus(inputs: Mapping[str, Artifact], params: ReportParams, out: Output) -> None:
    """`inputs` are the artifacts of the corpus flow by the name of their stage, in the order of the flow."""
    summary = summarise(inputs)
    page = render(TEMPLATE, title=params.title, bins=_bin_names(), **summary)
    add_report(out, page, summary, table_1(summary))


def table_1(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sub-domain, size and tokens as eHealth's Table 1 has them, with documents and segments."""
    return [
        {
            "sub-domain": row["source"],
            "documents": row["documents"],
            "size, MB": round(row["bytes"] / 1e6, 2),
            "segments": row["segments"],
            "tokens": row["tokens"],
        }
        for row in summary["sources"]
    ]


def _bin_names() -> list[str]:
    ends = [f"{high - 1:,}" for high in LENGTH_BINS[1:]]
    return [f"{low:,}-{end}" for low, end in zip(LENGTH_BINS, ends, strict=False)] + [f"{LENGTH_BINS[-1]:,}+"]
