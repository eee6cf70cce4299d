"""Stage `report_normaliser`: a page about a normaliser, in one HTML file, and its figures beside it.

Scores, recall of retrieval by number of terms, every setting of the grid, the best trial's dev curve, and the hard
cases of dev: what was missed although a candidate, what no candidate was, and how many terms were wrong. Diagnoses are
de-identified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from tasks.deidentify import deidentify
from tasks.error_summary import trials_of
from tasks.finetune_scores import TRIALS
from tasks.pages import add_report, render
from tasks.report_finetune import settings_table
from tasks.train_normaliser import RECALLS, SCORES

TEMPLATE = Path(__file__).with_name("report_normaliser.html.j2")

EXAMPLES = 20
"""Cases that are shown of each kind."""


class ReportNormaliserParams(StageParams):
    """Nothing to set."""


@stage(name="report_normaliser", version=2, params=ReportNormaliserParams)
def report_normaliser(inputs: Mapping[str, Artifact], params: ReportNormaliserParams, out: Output) -> None:
    """The page of `inputs["run"]`, a normaliser artifact."""
    run = inputs["run"]
    held = json.loads(run.read_file(SCORES))
    trials = trials_of(run.read_file(TRIALS))
    dev = run.scan("predictions").filter((pl.col("split") == "dev") & pl.col("gold").is_not_null()).collect()
    summary = {
        "decision": held["decision"],
        "published_grid": trials["grid"],
        "best": trials["best"],
        "settings": settings_table(trials["trials"]),
        "curve": next(one for one in trials["trials"] if one["name"] == trials["best"])["curve"],
        "scores": _scores(run),
        "recall": [row for split in ("dev", "test") if split in held for row in _recall(split, held[split])],
        "sections": hard_cases(dev.to_dicts()),
    }
    add_report(out.build, render(TEMPLATE, recalls=RECALLS, **summary), summary, _table(summary["scores"]))


def hard_cases(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sections of wrong answers of the table `predictions`, the surest mistakes first."""
    wrong = sorted((row for row in rows if not row["correct"]), key=lambda row: (-(row["value"] or 0.0), row["texts"]))
    cases = [_case(row) for row in wrong]
    kinds: Sequence[tuple[str, str, Any]] = (
        ("Too few terms", "Right terms, but not all of them.", lambda gold, given: given < gold),
        ("Too many terms", "All right terms, and others.", lambda gold, given: given > gold),
        ("Other terms", "At least one right term is missing and another stands there.", _neither_within),
    )
    return [
        {
            "name": name,
            "note": f"{sum(holds(gold, given) for gold, given, _ in cases):,} diagnoses. {note}",
            "rows": [row for gold, given, row in cases if holds(gold, given)][:EXAMPLES],
        }
        for name, note, holds in kinds
    ]


def _neither_within(gold: set[str], given: set[str]) -> bool:
    return not given < gold and not given > gold


def _case(row: Mapping[str, Any]) -> tuple[set[str], set[str], list[str]]:
    gold, given = set(json.loads(row["gold"])), set(json.loads(row["answer"]))
    text, _ = deidentify(row["texts"][0])
    score = "" if row["value"] is None else f"{row['value']:.3f}"
    return gold, given, [text, " ## ".join(sorted(gold)), " ## ".join(sorted(given)), score]


def _scores(run: Artifact) -> list[dict[str, Any]]:
    """The best run's scores, as tasks/train_normaliser.py orders them, the metric that counts first."""
    rows = run.scan("scores").filter(pl.col("of") == "best run").collect()
    chosen = rows.select("split", "metric", "main", "value", "low", "high").to_dicts()
    return sorted(chosen, key=lambda row: (row["split"], not row["main"]))


def _recall(split: str, figures: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for label, values in figures["recall"].items():
        recall = [values[str(k)] for k in RECALLS]
        yield {"split": split, "terms": label, "diagnoses": figures["diagnoses"][label], "recall": recall}


def _table(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"split": row["split"], "metric": row["metric"], "score": f"{100 * row['value']:.2f}"} for row in scores]
