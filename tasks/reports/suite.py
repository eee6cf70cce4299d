"""Stage `report_suite`: one table of scores over the tasks of a suite, and the archive to submit.

For CBLUE and the medical QA tasks the table has the form of eHealth's Tables 4 and 5. Published rows are included and
marked as such. `submission.zip` contains the files of the tasks that were run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import score_text
from tasks.downstream.published import published
from tasks.downstream.submission import check_submission, write_zip
from tasks.reports.errors import trials_of
from tasks.reports.finetune import best_scores

TEMPLATE = Path(__file__).with_name("suite.html.j2")
ZIP = "submission.zip"
Column = tuple[str, str]
"""Task and split."""
BEST_RUNS = 3
"""Number of runs averaged in Table 5."""

EMPTY = "–"
AVERAGE = ("avg", "test")
"""Column of the mean over the tasks."""
DEV, MIXED = " (dev)", " (test and dev)"
"""Notes on scores that are not measured on test."""


class ReportSuiteParams(StageParams):
    """Title of the page, name of the model, and tasks of the suite, including those that were not run."""

    title: str
    model: str
    tasks: tuple[str, ...]


@stage(name="report_suite", version=3, params=ReportSuiteParams)
def report_suite(inputs: Mapping[str, Artifact], params: ReportSuiteParams, out: Output) -> None:
    """Write the page about finetune artifacts, given by task name; that of CHIP-CDN is one of a normaliser."""
    runs = {name: inputs[name] for name in params.tasks if name in inputs}
    with tempfile.TemporaryDirectory() as folder:
        archive = _zip(runs, Path(folder))
        left_out = [] if archive is None else check_submission(archive)
        if archive is not None:
            out.add_file(ZIP, archive)
    summary = {
        "title": params.title,
        "model": params.model,
        **score_table(params, runs),
        "scores": [
            {"task": task(name).title, **row}
            for name, run in runs.items()
            for row in best_scores(run)
            if row["low"] is not None
        ],
        "missing": [task(name).title for name in params.tasks if name not in runs],
        "submission": ZIP if archive is not None else "",
        "left_out": [task(name).title for name in left_out],
    }
    columns: list[str] = summary["columns"]
    table = [dict(zip(columns, row["cells"], strict=True)) for row in summary["rows"]]
    add_report(out, render(TEMPLATE, score=score_text, **summary), summary, table)


def score_table(params: ReportSuiteParams, runs: Mapping[str, Artifact]) -> dict[str, Any]:
    """Return columns and rows of the table: the published rows by paper, then our own."""
    known = {(name, split): published(name, split) for name in params.tasks for split in ("dev", "test")}
    # A task has a column for each split with a published score, or both columns if none is published.
    columns = [key for key in known if known[key] or not any(known[key[0], split] for split in ("dev", "test"))]
    if params.title == "cblue":
        columns.append(AVERAGE)
        known[AVERAGE] = published("avg")
    rows: dict[tuple[str, str], dict[Column, str]] = {}
    for key in columns:
        for one in known[key]:
            rows.setdefault((one.source, one.model), {})[key] = one.printed
    own = _own_cells(columns, runs, mean_of_three=params.title == "medical-qa")
    shown = [
        {"own": False, "cells": [model, f"published: {source}", *(cells.get(key, EMPTY) for key in columns)]}
        for (source, model), cells in rows.items()
    ]
    return {
        "what": "Means of the best three runs on dev." if params.title == "medical-qa" else "Scores of the best run.",
        "columns": ["model", "from", *(_heading(*key) for key in columns)],
        "rows": [*shown, {"own": True, "cells": [params.model, "measured here", *own]}],
    }


def _heading(name: str, split: str) -> str:
    return "Avg." if name == "avg" else f"{task(name).title} {split}"


def _own_cells(columns: Sequence[Column], runs: Mapping[str, Artifact], mean_of_three: bool) -> list[str]:
    """Return our scores as shown, with their mean if no task lacks one."""
    found = {key: _own(*key, columns, runs, mean_of_three) for key in columns if key != AVERAGE}
    cells = {key: EMPTY if one is None else one.shown(task(key[0]).metric) for key, one in found.items()}
    return [cells[key] if key in cells else _average(list(found.values())) for key in columns]


class _Own(NamedTuple):
    """A score measured here."""

    value: float
    note: str
    """Note on the split; empty for test."""

    def shown(self, metric: str) -> str:
        return f"{score_text(metric, self.value, digits=1)}{self.note}"


def _own(
    name: str, split: str, columns: Sequence[Column], runs: Mapping[str, Artifact], mean_of_three: bool
) -> _Own | None:
    """Return our score, or None without one.

    If the answers of test are not public and dev has no column, the score of dev is used and marked.
    """
    if name not in runs:
        return None
    value = _value(runs[name], split, mean_of_three)
    if value is not None or (name, "dev") in columns:
        return None if value is None else _Own(value, "")
    on_dev = _value(runs[name], "dev", mean_of_three)
    return None if on_dev is None else _Own(on_dev, DEV)


def _average(found: Sequence[_Own | None]) -> str:
    scores = [one for one in found if one is not None]
    if not scores or len(scores) < len(found):
        return EMPTY
    notes = {one.note for one in scores}
    return _Own(mean(one.value for one in scores), notes.pop() if len(notes) == 1 else MIXED).shown("avg")


def _value(run: Artifact, split: str, mean_of_three: bool) -> float | None:
    if mean_of_three:
        trials = trials_of(run.read_file("trials.json"))
        best = sorted(trials["trials"], key=lambda one: -one["score"])[:BEST_RUNS]
        found = [one[split][trials["metric"]] for one in best if one[split]]
    else:
        found = [row["value"] for row in best_scores(run) if row["main"] and row["split"] == split]
    return mean(found) if found else None


def _zip(runs: Mapping[str, Artifact], folder: Path) -> Path | None:
    paths = []
    for run in runs.values():
        for record in run.manifest.files:
            if record.path.endswith(("_test.json", "_test.jsonl")):
                (folder / record.path).write_bytes(run.read_file(record.path))
                paths.append(folder / record.path)
    return write_zip(paths, folder / ZIP) if paths else None
