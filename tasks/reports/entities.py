"""Stage `report_entities`: a page about an entity vocabulary: what is in it, how good its phrases are, how it is cut.

Holds `report.html`, which needs nothing from elsewhere, `summary.json`, and `table.json`: precision against held-out
names by band of quality.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.reports.entities_figures import precision_table, summarise
from tasks.segment.words import read_terms

TEMPLATE = Path(__file__).with_name("entities.html.j2")


class ReportEntitiesParams(StageParams):
    """What stands at the head of the page, and which samples are drawn."""

    title: str = "Entities"
    seed: int = 42


@stage(name="report_entities", version=2, params=ReportEntitiesParams)
def report_entities(inputs: Mapping[str, Any], params: ReportEntitiesParams, out: Output) -> None:
    """`inputs` are the artifact `entities` and, where they were made, `phrases` and `synonyms`; the raw input
    `held_out` has names, a line each, that the phrases were mined without knowing.

    Raises:
        UserError: `held_out` is not UTF-8.
    """
    held_out = read_terms(inputs["held_out"]) if "held_out" in inputs else None
    summary = summarise(inputs["entities"], inputs.get("phrases"), inputs.get("synonyms"), held_out, params.seed)
    page = render(TEMPLATE, title=params.title, given=held_out is not None, **summary)
    add_report(out, page, summary, precision_table(summary))
