"""Stage `report_suite`: one table of scores over the tasks of a suite, and the archive to hand in.

For CBLUE and the medical QA tasks the table has the shape of eHealth's Tables 4 and 5, with the published rows beside ours
and marked so. `submission.zip` holds the files of the tasks that were run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from tasks.downstream.catalogue import task
from tasks.downstream.submission import check_submission, write_zip
from tasks.error_summary import trials_of
from tasks.pages import add_report, render
from tasks.published_scores import CBLUE_TASKS, QA_TASKS, TABLE_4, TABLE_5
from tasks.report_finetune import best_scores

TEMPLATE = Path(__file__).with_name("report_suite.html.j2")
ZIP = "submission.zip"
BEST_RUNS = 3
"""Runs that Table 5 takes the mean of."""

Cell = float | None


class ReportSuiteParams(StageParams):
    """What stands at the head of the page, and the tasks of the suite, missing ones too."""

    title: str
    model: str
    tasks: tuple[str, ...]


@stage(name="report_suite", version=1, params=ReportSuiteParams)
def report_suite(inputs: Mapping[str, Artifact], params: ReportSuiteParams, out: Output) -> None:
    """`inputs` are finetune artifacts by the names of their tasks."""
    runs = {name: inputs[name] for name in params.tasks if name in inputs}
    with tempfile.TemporaryDirectory() as folder:
        archive = _zip(runs, Path(folder))
        left_out = [] if archive is None else check_submission(archive)
        if archive is not None:
            out.build.add_file(ZIP, archive)
    summary = {
        "title": params.title,
        "model": params.model,
        **score_table(params, runs),
        "scores": [{"task": task(name).title, **row} for name, run in runs.items() for row in best_scores(run)],
        "missing": [task(name).title for name in params.tasks if name not in runs],
        "submission": ZIP if archive is not None else "",
        "left_out": [task(name).title for name in left_out],
    }
    columns: list[str] = summary["columns"]
    table = [dict(zip(columns, [row["name"], *row["cells"]], strict=True)) for row in summary["rows"]]
    add_report(out.build, render(TEMPLATE, **summary), summary, table)


def score_table(params: ReportSuiteParams, runs: Mapping[str, Artifact]) -> dict[str, Any]:
    """The columns and rows of the table, the published ones first."""
    trials = {name: trials_of(run.read_file("trials.json")) for name, run in runs.items()}
    if params.tasks == CBLUE_TASKS:
        published = {name: [*row, mean(row)] for name, row in TABLE_4.items()}
        own = [_best_of(runs[name], "dev") if name in runs else None for name in CBLUE_TASKS]
        return {
            "source": "Table 4, scores on test",
            "what": "Own rows are dev scores of the best run: the answers of test are known to the server alone.",
            "columns": ["model", *(task(name).title for name in CBLUE_TASKS), "Avg."],
            "rows": _rows(published, f"{params.model} (dev)", [*own, _mean(own)]),
        }
    if params.tasks == QA_TASKS:
        flat = {name: [value for pair in row for value in pair] for name, row in TABLE_5.items()}
        pairs = [_best_three(trials[name]) if name in runs else (None, None) for name in QA_TASKS]
        return {
            "source": "Table 5",
            "what": "Means of the best three runs on dev, or of as many as there are.",
            "columns": ["model", *(f"{task(name).title} {split}" for name in QA_TASKS for split in ("dev", "test"))],
            "rows": _rows(flat, params.model, [value for pair in pairs for value in pair]),
        }
    cells: list[Cell] = []
    for name in params.tasks:
        cells += [_best_of(runs[name], split) if name in runs else None for split in ("dev", "test")]
    return {
        "source": "none for these tasks",
        "what": "Scores of the best run.",
        "columns": ["model", *(f"{task(name).title} {split}" for name in params.tasks for split in ("dev", "test"))],
        "rows": _rows({}, params.model, cells),
    }


def _rows(published: Mapping[str, Sequence[float]], own: str, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    rows = [
        {"name": f"{name} (published)", "own": False, "cells": [_shown(value) for value in values]}
        for name, values in published.items()
    ]
    return [*rows, {"name": own, "own": True, "cells": [_shown(value) for value in cells]}]


def _best_of(run: Artifact, split: str) -> Cell:
    found = [row["value"] for row in best_scores(run) if row["main"] and row["split"] == split]
    return 100 * found[0] if found else None


def _best_three(trials: Mapping[str, Any]) -> tuple[Cell, Cell]:
    best = sorted(trials["trials"], key=lambda one: -one["score"])[:BEST_RUNS]
    tests = [one["test"][trials["metric"]] for one in best if one["test"]]
    return 100 * mean(one["score"] for one in best), 100 * mean(tests) if tests else None


def _mean(cells: Sequence[Cell]) -> Cell:
    known = [cell for cell in cells if cell is not None]
    return mean(known) if len(known) == len(cells) else None


def _shown(value: Cell) -> str:
    return "–" if value is None else f"{value:.1f}"


def _zip(runs: Mapping[str, Artifact], folder: Path) -> Path | None:
    paths = []
    for run in runs.values():
        for record in run.manifest.files:
            if record.path.endswith(("_test.json", "_test.jsonl")):
                (folder / record.path).write_bytes(run.read_file(record.path))
                paths.append(folder / record.path)
    return write_zip(paths, folder / ZIP) if paths else None
