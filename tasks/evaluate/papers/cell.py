"""Stage `papers_cell`: a start fine-tuned on a task by a small grid, with several seeds; scores and counts of each run.

Unlike the stage `finetune` it keeps no model. It keeps the counts of every run on each test record, which paired tests
between two starts need. The artifact has the table `scores` and `trials.json`.

Time grows with trials x epochs x tokens, as in the stage `finetune`; a killed run resumes after its last whole epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from tasks.downstream.catalogue import task
from tasks.downstream.task_data import load_task_data
from tasks.finetune.params import FinetuneParams
from tasks.finetune.stage import make_trials
from tasks.finetune.trials.grid import best_run, run_trials
from tasks.finetune.trials.result import DIVERGED
from tasks.finetune.trials.scores import TRIALS, count_trials, trial_rows, trials_json
from tasks.finetune.trials.task_trial import TALLY, check_trials


@stage(name="papers_cell", version=1, params=FinetuneParams, tables=("scores",), unit="epoch")
def papers_cell(inputs: Mapping[str, Any], params: FinetuneParams, out: Output) -> None:
    """Fine-tune `inputs["model"]` (a `ModelFolder`) on the files `inputs["data"]` (`TaskFiles`).

    Raises:
        UserError: the test records have no answers, or as the stage `finetune` does.
    """
    spec, files = task(params.task), inputs["data"]
    data = load_task_data(spec, files.path, params.limit)
    if not data.test_has_answers:
        raise UserError(f"{spec.title} has no test records with answers, and starts are compared by these.")
    trials = [
        trial.model_copy(update={"tallied": True})
        for trial in make_trials(spec, params, inputs["model"], files, f"{out.scratch}/trials")
    ]
    check_trials(trials, data)
    total = sum(trial.epochs for trial in trials)
    results = run_trials(
        trials, params.resources, lambda epochs, note: out.on_progress(f"{spec.name}", round(epochs), total, note)
    )
    best = best_run(results)
    with out.part() as part:
        part.write("scores", list(trial_rows(spec, results, best)))
    out.add_bytes(TRIALS, trials_json(spec, params.grid(spec).source, data, results, best).encode())
    count_trials(out, data, results, best)


@dataclass(frozen=True)
class CellScores:
    """Scores of a cell's chosen setting, by seed; the setting has the best mean on dev."""

    task: str
    setting: str
    """Batch size, learning rate and epochs for people."""
    test: Mapping[int, float]
    """Score on test by the task's metric, a fraction of 1."""
    dev: Mapping[int, float]
    tallies: Mapping[int, np.ndarray]
    """Counts of the metric, float64 (test records, S)."""
    seconds: float
    """Seconds of training, over all runs of the grid."""

    @property
    def mean(self) -> float:
        """Mean of the test scores."""
        return mean(self.test.values())


def read_cell(artifact: Artifact) -> CellScores:
    """Return the scores of an artifact of `papers_cell`; seeds whose loss diverged are left out."""
    content = json.loads(artifact.read_file(TRIALS))
    metric, trials = content["metric"], content["trials"]
    settings: dict[tuple[int, float, int], list[Mapping[str, Any]]] = {}
    for one in trials:
        trial = one["trial"]
        settings.setdefault((trial["batch_size"], trial["learning_rate"], trial["epochs"]), []).append(one)
    best = next(one["trial"] for one in trials if one["name"] == content["best"])
    chosen = best["batch_size"], best["learning_rate"], best["epochs"]
    runs = [one for one in settings[chosen] if one["stopped"] != DIVERGED]
    return CellScores(
        task=content["task"],
        setting=f"{chosen[0]} rows, rate {chosen[1]:g}, {chosen[2]} epochs",
        test={one["trial"]["seed"]: one["test"][metric] for one in runs},
        dev={one["trial"]["seed"]: one["score"] for one in runs},
        tallies={one["trial"]["seed"]: np.array(one["extra"][TALLY], dtype=np.float64) for one in runs},
        seconds=sum(one["seconds"] for one in trials),
    )


def same_records(cells: Sequence[CellScores]) -> bool:
    """Return whether all cells have counts of equally many test records."""
    return len({tally.shape for cell in cells for tally in cell.tallies.values()}) == 1
