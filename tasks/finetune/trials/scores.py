"""Records of trials, for every stage that fine-tunes: rows of the table `scores`, `trials.json` and counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from infra.stage import Output
from tasks.downstream.spec import TaskSpec
from tasks.downstream.task_data import TaskData
from tasks.finetune.trials.result import TrialResult

TRIALS = "trials.json"


def score_row(
    spec: TaskSpec,
    split: str,
    metric: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
) -> dict[str, Any]:
    """Return a row for a score of the best run's predictions, with its interval if there is one."""
    return {
        "task": spec.name,
        "split": split,
        "of": "best run",
        "metric": metric,
        "main": metric == spec.metric,
        "value": value,
        "low": low,
        "high": high,
        "best": True,
        "batch_size": None,
        "learning_rate": None,
        "epochs": None,
        "seed": None,
    }


def trial_rows(spec: TaskSpec, results: Sequence[TrialResult], best: TrialResult) -> Iterator[dict[str, Any]]:
    """Yield rows for the scores of each trial."""
    for result in results:
        trial = result.trial
        for split, scores in (("dev", result.dev), ("test", result.test)):
            for name, value in scores.items():
                yield score_row(spec, split, name, value) | {
                    "of": "trial",
                    "best": trial.name == best.trial.name,
                    "batch_size": trial.batch_size,
                    "learning_rate": trial.learning_rate,
                    "epochs": trial.epochs,
                    "seed": trial.seed,
                }


def trials_json(spec: TaskSpec, grid: str, data: TaskData, results: Sequence[TrialResult], best: TrialResult) -> str:
    """Return what the tables lack: dev curves, speeds, and the origin and rejects of the records."""
    hidden = {"trial": {"model", "data", "storage", "threads", "states", "knowledge"}}
    content = {
        "task": spec.name,
        "metric": spec.metric,
        "grid": grid,
        "best": best.trial.name,
        "origins": data.origins,
        "records": {"train": len(data.train), "dev": len(data.dev), "test": len(data.test)},
        "rejects": [asdict(reject) for reject in data.rejects],
        "unseen": data.unseen,
        **({} if data.own is None else {"own": data.own.model_dump(mode="json", exclude={"rejects", "origins"})}),
        "trials": [{"name": r.trial.name, **r.model_dump(mode="json", exclude=hidden)} for r in results],
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def count_trials(out: Output, data: TaskData, results: Sequence[TrialResult], best: TrialResult) -> None:
    """Count trials, records and what was left out in the manifest."""
    out.count("trials", len(results))
    for split, records in (("train", data.train), ("dev", data.dev), ("test", data.test)):
        out.count(f"records_{split}", len(records))
    for name, count in (Counter(f"rejected_{one.reason}" for one in data.rejects) + Counter(best.counters)).items():
        out.count(name, count)
    if data.unseen:
        out.count("dev_labels_unseen_in_train", sum(data.unseen.values()))
