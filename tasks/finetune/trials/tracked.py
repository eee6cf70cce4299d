"""Curves and scores of trials for MLflow and TensorBoard: a run for each trial (infra/tracking.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from infra.console.progress import BestEffort
from infra.tracking import tracked, trackers


def track_trials(stage: str, fingerprint: str, trials: str, scores: Iterable[tuple[str, str, float]]) -> None:
    """Write every trial's curve and scores, and the scores of the best one, to the trackers that users ask for.

    Args:
        stage: name of the stage, under which the runs are listed.
        fingerprint: that of its artifact; the same work continues its runs.
        trials: content of `trials.json`.
        scores: split, metric and value of the best run's scores.

    Raises:
        UserError: as `infra.tracking.tracked` does.
    """
    if not trackers():
        return
    content = json.loads(trials)
    for one in content["trials"]:
        label = f"{content['task']} {one['name']}"
        with tracked(stage, label, f"{fingerprint}-{one['name']}", one["trial"]) as runs:
            for run in runs:
                with BestEffort(f"The curve of {label}"):
                    run.log("curve", [(point["step"], _figures(point)) for point in one["curve"]])
                    run.log("dev", [(0, one["dev"])])
                    run.log("test", [(0, one["test"])])
                    if one["name"] == content["best"]:
                        run.log("best", [(0, {f"{split}_{metric}": value for split, metric, value in scores})])


def _figures(point: Mapping[str, Any]) -> dict[str, float]:
    return {"dev_score": point["score"], "train_loss": point["train_loss"], "epoch": point["epoch"]}
