"""Stage `similarity_table`: the scores of several models on D1 to D3 side by side, in the shape of SMedBERT's Table 1.

The paper's own rows are beside, although their sets are of another graph. The artifact has `report.html`, `table.md`,
`summary.json` and `table.json`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, stage
from tasks.evaluate.similarity.params import CHANCE, NEGATIVES, SimilarityTableParams
from tasks.evaluate.similarity.scores import SETS

TEMPLATE = Path(__file__).with_name("table.html.j2")
PUBLISHED = Path(__file__).with_name("published.csv")
"""Table 1 of the paper, in percent."""
PUBLISHED_SAMPLES = {"d1": 359_358, "d2": 272_320, "d3": 41_583}


@stage(name="similarity_table", version=1, params=SimilarityTableParams)
def similarity_table(inputs: Mapping[str, Artifact], params: SimilarityTableParams, out: Output) -> None:
    """Tabulate the artifacts of `similarity_scores` that `params.names` names; `inputs["sets"]` are their sets."""
    rows = [
        {"model": name, **json.loads(inputs[given].read_file("summary.json"))} for given, name in params.names.items()
    ]
    counters = inputs["sets"].manifest.counters
    table = [_shown(row) for row in rows]
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        published = list(csv.DictReader(lines))
    seen = {
        row["model"]: {name: one["joined"] for name, one in row["sets"].items() if one and one["joined"]}
        for row in rows
    }
    page = render(
        TEMPLATE,
        rows=table,
        sets=list(SETS),
        samples={name: counters.get(f"{name}_samples", 0) for name in SETS},
        lacking={name: counters.get(f"{name}_too_few_alike", 0) for name in SETS},
        pairs=counters.get("pairs_in", 0),
        without_type=counters.get("without_type", 0),
        negatives=NEGATIVES,
        chance=CHANCE,
        published=published,
        published_samples=PUBLISHED_SAMPLES,
        seen={name: counts for name, counts in seen.items() if counts},
    )
    add_report(out, page, {"rows": rows, "counters": counters}, table)
    names = list(table[0])
    page_rows = [names, ["---", *["---:"] * (len(names) - 1)], *([row[name] for name in names] for row in table)]
    out.add_bytes("table.md", "".join(f"| {' | '.join(line)} |\n" for line in page_rows).encode())


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a line of the table, each value as it is shown."""
    cells = {"Model": row["model"]} | {name.upper(): _cell(one) for name, one in row["sets"].items()}
    d1 = row["sets"]["d1"]
    joined = "unknown" if d1["joined"] is None else f"{d1['joined']:,}"
    return cells | {"joined": joined, "unknown": f"{row['unknown_names']:,}"}


def _cell(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "–"
    return f"{100 * figures['accuracy']:.2f} ({100 * figures['low']:.1f} to {100 * figures['high']:.1f})"
