"""Stage `learning_curve`: the best setting of a run of `finetune`, trained on parts of its training records.

Each seed draws its own records, as `finetune.train_records` does; those of one seed are nested, 100 within 300 within
1,000. So the spread over the seeds has the luck of the draw in it. Dev, test and the labels are those of the run, whose
own trials are the last point: the curve says what more records would be worth. It has `curve.json` with the scores of
every size and seed.

Time grows with the sizes x seeds x epochs; a size takes its share of a trial of the run. Memory is that of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from tasks.downstream.own import task_in
from tasks.downstream.task_data import load_task_data
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.finetune.stage import make_trials
from tasks.finetune.trials.grid import Progress, run_trials
from tasks.finetune.trials.result import DIVERGED
from tasks.finetune.trials.scores import TRIALS
from tasks.finetune.trials.task_trial import TaskTrial

CURVE = "curve.json"


class LearningCurveParams(FinetuneParams):
    """Parameters of fine-tuning, and the sizes of the training set."""

    sizes: tuple[int, ...] = Field(default=(100, 300, 1_000), min_length=1, description="records to train on; and all")


@stage(name="learning_curve", version=2, params=LearningCurveParams, unit="epoch", heavy=True)
def learning_curve(inputs: Mapping[str, Any], params: LearningCurveParams, out: Output) -> None:
    """Train `inputs["model"]` on parts of `inputs["data"]`, both those of `inputs["run"]`, an artifact of `finetune`.

    Raises:
        UserError: a size is not positive.
    """
    if min(params.sizes) < 1:
        raise UserError(f"learning_curve.sizes has {min(params.sizes)}. Give numbers of records, such as [100, 300].")
    model: ModelFolder = inputs["model"]
    files: TaskFiles = inputs["data"]
    run: Artifact = inputs["run"]
    record = json.loads(run.read_file(TRIALS))
    best = next(one["trial"] for one in record["trials"] if one["name"] == record["best"])
    setting = {name: best[name] for name in ("batch_size", "learning_rate", "epochs")}
    spec = task_in(params.task, files.path)
    data = load_task_data(spec, files.path, params.limit)
    sizes = sorted({size for size in params.sizes if size < len(data.train)})
    points = []
    trials: list[TaskTrial] = []
    for size in sizes:
        part = params.model_copy(update={"train_records": size})
        own = [
            trial
            for trial in make_trials(spec, part, model, files, f"{out.scratch}/trials/{size}")
            if {name: getattr(trial, name) for name in setting} == setting
        ]
        results = run_trials(
            own, params.resources, _progress(out, spec.name, sum(one.epochs for one in trials), own, sizes)
        )
        points += [_point(size, one.trial.seed, one) for one in results]
        trials += own
    whole = [
        one
        for one in record["trials"]
        if {name: one["trial"][name] for name in setting} == setting and one["stopped"] != DIVERGED
    ]
    points += [
        {"size": len(data.train), "seed": one["trial"]["seed"], "dev": one["dev"], "test": one["test"]} for one in whole
    ]
    content = {"metric": spec.metric, **setting, "points": [point for point in points if point["dev"]]}
    out.add_bytes(CURVE, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())
    out.count("sizes", len(sizes) + 1)
    out.count("trials", len(trials))


def _progress(out: Output, name: str, before: int, own: Sequence[TaskTrial], sizes: Sequence[int]) -> Progress:
    """Return what reports the epochs of a size's trials, after those of smaller sizes; each has as many trials."""
    total = len(sizes) * sum(trial.epochs for trial in own)
    return lambda done, note: out.on_progress(f"learning-curve-{name}", before + round(done), total, note)


def _point(size: int, seed: int, result: Any) -> dict[str, Any]:
    return {"size": size, "seed": seed, "dev": result.dev, "test": result.test}
