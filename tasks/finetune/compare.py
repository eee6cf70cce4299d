"""The paired test between two encoders: two runs of one task, fine-tuned models or normalisers, on the same records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.records import Kind, Record
from tasks.downstream.scoring import compare_answers
from tasks.finetune.prediction.rows import answer_from_json

RUNS: Mapping[str, str] = {"finetune": "a run of fine-tuning", "normaliser": "a trained normaliser"}
"""Stages whose artifacts have answers and scores, and a name for one in messages."""


def open_run(folder: str | Path, stages: Sequence[str] = tuple(RUNS)) -> Artifact:
    """Return the artifact of one of the stages in a folder; the folder may be its `model/`.

    Raises:
        UserError: the folder is not such an artifact.
    """
    path = Path(folder).expanduser().resolve()
    path = path.parent if path.name == "model" else path
    stage = path.parent.name
    found = ArtifactStore(path.parent.parent).get(stage, path.name) if stage in stages else None
    if found is None:
        called = " or ".join(RUNS[one] for one in stages)
        places = " or ".join(f"artifacts/{one}" for one in stages)
        raise UserError(f"{folder} is not {called}. Give the folder in {places} that a flow printed.")
    return found


def compare_runs(first: Artifact, second: Artifact, split: str = "dev", seed: int = 0) -> dict[str, Any]:
    """Return the scores of both runs, their difference with a bootstrap interval, and a p-value.

    tasks/metrics/significance.py describes the test.

    Raises:
        UserError: the runs are of different tasks, or did not answer the same records of the split.
    """
    names = [str(run.scan("scores").select("task").first().collect().item()) for run in (first, second)]
    if names[0] != names[1]:
        raise UserError(f"Only runs of the same task can be compared. These are of {names[0]} and {names[1]}.")
    spec = replace(task(names[0]), metric=_metric(first))
    tables = [_answered(run, split) for run in (first, second)]
    if not len(tables[0]):
        raise UserError(f"The first run has no records of {split} with known answers.")
    if not tables[0].select("record_id", "texts", "gold").equals(tables[1].select("record_id", "texts", "gold")):
        raise UserError(f"The two runs did not answer the same records of {split}. Compare runs on the same files.")
    rows = tables[0].to_dicts()
    records = [
        Record(row["record_id"], tuple(row["texts"]), answer_from_json(spec.kind, row["gold"]), row["group"])
        for row in rows
    ]
    answers = [[_answer(spec.kind, row) for row in table.to_dicts()] for table in tables]
    found = compare_answers(spec, records, answers[0], answers[1], seed=seed)
    return {
        "task": spec.name,
        "split": split,
        "metric": spec.metric,
        "records": len(records),
        "first": _score(first, split),
        "second": _score(second, split),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
    }


def _answered(run: Artifact, split: str) -> pl.DataFrame:
    return run.scan("predictions").filter((pl.col("split") == split) & pl.col("gold").is_not_null()).collect()


def _answer(kind: Kind, row: dict[str, Any]) -> Any:
    """Return what is scored: the value by which candidates are ranked, or else the answer.

    A normaliser's value is its confidence, which is not scored.
    """
    is_ranked = row["value"] is not None and kind is not Kind.NORMALISATION
    return row["value"] if is_ranked else answer_from_json(kind, row["answer"])


def _metric(run: Artifact) -> str:
    """Return the metric that chose the best run: that of the task, or of the user's own files."""
    main = run.scan("scores").filter((pl.col("of") == "best run") & pl.col("main")).select("metric").first()
    return str(main.collect().item())


def _score(run: Artifact, split: str) -> float:
    best = (pl.col("of") == "best run") & (pl.col("split") == split) & pl.col("main")
    return float(run.scan("scores").filter(best).collect()["value"][0])
