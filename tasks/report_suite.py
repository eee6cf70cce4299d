"""Stage `report_suite`: one table of scores over the tasks of a suite, and the archive to hand in.

For CBLUE and the medical QA tasks the table has the shape of eHealth's Tables 4 and 5. Published rows stand beside ours
and are marked so. `submission.zip` holds the files of the tasks that were run.
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
from tasks.downstream.published import published
from tasks.downstream.submission import check_submission, write_zip
from tasks.error_summary import trials_of
from tasks.pages import add_report, render
from tasks.report_finetune import best_scores

TEMPLATE = Path(__file__).with_name("report_suite.html.j2")
ZIP = "submission.zip"
BEST_RUNS = 3
"""Runs that Table 5 takes the mean of."""

EMPTY = "–"


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
    """Columns and rows of the table: the published rows by paper, then our own."""
    known = {(name, split): published(name, split) for name in params.tasks for split in ("dev", "test")}
    columns = [key for key in known if known[key] or not any(known[key[0], split] for split in ("dev", "test"))]
    if params.title == "cblue":
        columns.append(("avg", "test"))
        known["avg", "test"] = published("avg")
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for key in columns:
        for one in known[key]:
            rows.setdefault((one.source, one.model), {})[key] = one.printed
    own = _own_cells(columns, runs, mean_of_three=params.title == "medical-qa")
    shown = [
        {"name": f"{model} (published: {source})", "own": False, "cells": [cells.get(key, EMPTY) for key in columns]}
        for (source, model), cells in rows.items()
    ]
    return {
        "what": "Means of the best three runs on dev." if params.title == "medical-qa" else "Scores of the best run.",
        "columns": ["model", *(_heading(*key) for key in columns)],
        "rows": [*shown, {"name": params.model, "own": True, "cells": own}],
    }


def _heading(name: str, split: str) -> str:
    return "Avg." if name == "avg" else f"{task(name).title} {split}"


def _own_cells(columns: Sequence[tuple[str, str]], runs: Mapping[str, Artifact], mean_of_three: bool) -> list[str]:
    """Our scores; where those of test are known to the benchmark alone and dev has no column, dev's, said so."""
    values = {key: _own(runs[key[0]], key[1], mean_of_three) for key in columns if key[0] in runs}
    cells = []
    for name, split in columns:
        value = values.get((name, split))
        if name in runs and value is None and (name, "dev") not in columns:
            cells.append(f"{_own(runs[name], 'dev', mean_of_three):.1f} (dev)")
        else:
            cells.append(EMPTY if value is None else f"{value:.1f}")
    return cells


def _own(run: Artifact, split: str, mean_of_three: bool) -> float | None:
    if mean_of_three:
        trials = trials_of(run.read_file("trials.json"))
        best = sorted(trials["trials"], key=lambda one: -one["score"])[:BEST_RUNS]
        found = [one[split][trials["metric"]] for one in best if one[split]]
    else:
        found = [row["value"] for row in best_scores(run) if row["main"] and row["split"] == split]
    return 100 * mean(found) if found else None


def _zip(runs: Mapping[str, Artifact], folder: Path) -> Path | None:
    paths = []
    for run in runs.values():
        for record in run.manifest.files:
            if record.path.endswith(("_test.json", "_test.jsonl")):
                (folder / record.path).write_bytes(run.read_file(record.path))
                paths.append(folder / record.path)
    return write_zip(paths, folder / ZIP) if paths else None
