"""Stage `report_finetune`: an HTML page about one fine-tuned task, and its figures beside it.

The page shows scores with their intervals, every setting of the grid, the dev curve of the best trial, and the model's
mistakes on dev; for a task on a user's own files also its labels and what is odd about its rows. Excerpts are
de-identified.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import score_text
from tasks.reports.errors import summarise_errors, trials_of
from tasks.reports.learning_curve import CURVE, curve_table, picture
from tasks.training.curves import HEIGHT, WIDTH, Panel, panel

TEMPLATE = Path(__file__).with_name("finetune.html.j2")


class ReportFinetuneParams(StageParams):
    """The page has no parameters."""


@stage(name="report_finetune", version=2, params=ReportFinetuneParams)
def report_finetune(inputs: Mapping[str, Artifact], params: ReportFinetuneParams, out: Output) -> None:
    """Write the page about `inputs["run"]`, a finetune artifact, and its learning curve `inputs["curve"]`, if any."""
    run = inputs["run"]
    trials = trials_of(run.read_file("trials.json"))
    spec, own = task(trials["task"]), trials.get("own")
    dev = run.scan("predictions").filter((pl.col("split") == "dev") & pl.col("gold").is_not_null()).collect()
    summary = {
        "title": spec.title if own is None else own["title"],
        "kind": str(spec.kind),
        "metric": trials["metric"],
        "own": own,
        "learning_curve": curve_table(json.loads(inputs["curve"].read_file(CURVE))) if "curve" in inputs else [],
        "published_grid": trials["grid"],
        "origins": trials["origins"],
        "records": trials["records"],
        "rejects": _rejects(trials["rejects"]),
        "unseen": trials["unseen"],
        "counters": next(one for one in trials["trials"] if one["name"] == trials["best"])["counters"],
        "best": trials["best"],
        "scores": best_scores(run),
        "settings": settings_table(trials["trials"]),
        "curve": next(one for one in trials["trials"] if one["name"] == trials["best"])["curve"],
        **summarise_errors(spec.kind, spec.labels or (), dev.to_dicts()),
    }
    curve = picture(summary["learning_curve"], summary["metric"])
    page = render(
        TEMPLATE,
        dev=dev_curve(summary["curve"], spec.metric),
        width=WIDTH,
        height=HEIGHT,
        picture=curve,
        score=score_text,
        **summary,
    )
    add_report(out, page, summary, _table(summary))


def best_scores(run: Artifact) -> list[dict[str, Any]]:
    """Return the best run's scores with their intervals, dev before test and the main metric first."""
    rows = run.scan("scores").filter(pl.col("of") == "best run").collect()
    chosen = rows.select("split", "metric", "main", "value", "low", "high").to_dicts()
    return sorted(chosen, key=lambda row: (row["split"], not row["main"], row["metric"]))


def settings_table(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per setting, the best mean first, with the dev scores of its seeds and their mean."""
    by_setting: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in trials:
        setting = tuple(one["trial"][name] for name in ("batch_size", "learning_rate", "epochs"))
        by_setting.setdefault(setting, []).append(one)
    rows = [
        {
            "batch_size": setting[0],
            "learning_rate": setting[1],
            "epochs": setting[2],
            "mean": mean(one["score"] for one in found),
            "scores": [one["score"] for one in found],
            "seconds": sum(one["seconds"] for one in found),
        }
        for setting, found in by_setting.items()
    ]
    return sorted(rows, key=lambda row: -row["mean"])


def _rejects(rejects: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str, str], int] = {}
    for one in rejects:
        key = (one["file"], one["reason"], one["lost"])
        counts[key] = counts.get(key, 0) + 1
    return [{"file": f, "reason": r, "lost": lost, "count": n} for (f, r, lost), n in sorted(counts.items())]


def dev_curve(curve: Sequence[Mapping[str, float]], metric: str) -> Panel:
    """Return the scores on dev by epoch, in percent except for scores that are not shares."""
    factor, unit = (1, "") if metric == "pair_score" else (100, "percent")
    points = [(one["epoch"], factor * one["score"]) for one in curve]
    return panel(f"{metric} on dev", {metric: points}, x_title="epoch", y_title=unit)


def _table(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "task": summary["title"],
            "split": row["split"],
            "metric": row["metric"],
            "score": score_text(row["metric"], row["value"]),
            "95 % interval": " to ".join(score_text(row["metric"], row[end]) for end in ("low", "high")),
        }
        for row in summary["scores"]
    ]
