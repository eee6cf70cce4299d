"""Stage `report_normaliser`: an HTML page about a normaliser, and its figures beside it.

The page shows scores, recall of retrieval by number of terms, every setting of the grid, the dev curve of the best
trial, and the hard cases of dev: terms missed although they were candidates (by the ranker or the decision), terms that
were not candidates (missed by retrieval), and surplus terms. Diagnoses are de-identified.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.deidentify import deidentify
from tasks.finetune.trials.scores import TRIALS
from tasks.normalise.scores import RECALLS, SCORES
from tasks.reports.errors import trials_of
from tasks.reports.finetune import dev_curve, settings_table
from tasks.training.curves import HEIGHT, WIDTH

TEMPLATE = Path(__file__).with_name("normaliser.html.j2")

EXAMPLES = 20
"""Cases shown of each kind."""


class ReportNormaliserParams(StageParams):
    """The page has no parameters."""


@stage(name="report_normaliser", version=4, params=ReportNormaliserParams)
def report_normaliser(inputs: Mapping[str, Artifact], params: ReportNormaliserParams, out: Output) -> None:
    """Write the page about `inputs["run"]`, a normaliser artifact."""
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
        "sections": hard_cases(dev.to_dicts(), run.scan("gold_ranks").filter(split="dev").collect().to_dicts()),
    }
    page = render(
        TEMPLATE, recalls=RECALLS, dev=dev_curve(summary["curve"], "F1"), width=WIDTH, height=HEIGHT, **summary
    )
    add_report(out, page, summary, _table(summary["scores"]))


def hard_cases(
    predictions: Iterable[Mapping[str, Any]], gold_ranks: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return sections of the wrong answers of one split, the surest mistakes first.

    Args:
        predictions: rows of the table predictions.
        gold_ranks: rows of the table gold_ranks.
    """
    ranks: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
    for row in gold_ranks:
        ranks[row["record_id"]][row["term"]] = row["rank"]
    wrong = [row for row in predictions if not row["correct"]]
    wrong.sort(key=lambda row: (-(row["value"] or 0.0), row["texts"]))
    cases = [(_missing(row, ranks[row["record_id"]]), _case(row, ranks[row["record_id"]])) for row in wrong]
    kinds: Sequence[tuple[str, str, Callable[[list[int | None]], bool]]] = (
        ("Missed although a candidate", "Every right term that is missing was ranked.", _all_ranked),
        ("Missed, and no candidate", "Some right term that is missing was not found to be ranked.", _some_unranked),
        ("Too many terms", "All right terms, and others.", lambda missing: not missing),
    )
    return [
        {
            "name": name,
            "note": f"{sum(holds(missing) for missing, _ in cases):,} diagnoses. {note}",
            "rows": [row for missing, row in cases if holds(missing)][:EXAMPLES],
        }
        for name, note, holds in kinds
    ]


def _all_ranked(missing: list[int | None]) -> bool:
    return bool(missing) and None not in missing


def _some_unranked(missing: list[int | None]) -> bool:
    return None in missing


def _missing(row: Mapping[str, Any], ranks: Mapping[str, int | None]) -> list[int | None]:
    """Return the ranks of the right terms that are missing from the answer."""
    given = set(json.loads(row["answer"]))
    return [rank for term, rank in ranks.items() if term not in given]


def _case(row: Mapping[str, Any], ranks: Mapping[str, int | None]) -> list[str]:
    text, _ = deidentify(row["texts"][0])
    right = (f"{term} ({'no candidate' if rank is None else rank})" for term, rank in sorted(ranks.items()))
    score = "" if row["value"] is None else f"{row['value']:.3f}"
    return [text, " ## ".join(right), " ## ".join(sorted(json.loads(row["answer"]))), score]


def _scores(run: Artifact) -> list[dict[str, Any]]:
    """Return the best run's scores in the order of tasks/normalise/scores.py, with the main metric first."""
    rows = run.scan("scores").filter(pl.col("of") == "best run").collect()
    chosen = rows.select("split", "metric", "main", "value", "low", "high").to_dicts()
    return sorted(chosen, key=lambda row: (row["split"], not row["main"]))


def _recall(split: str, figures: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for label, values in figures["recall"].items():
        recall = [values[str(k)] for k in RECALLS]
        yield {"split": split, "terms": label, "diagnoses": figures["diagnoses"][label], "recall": recall}


def _table(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"split": row["split"], "metric": row["metric"], "score": f"{100 * row['value']:.2f}"} for row in scores]
