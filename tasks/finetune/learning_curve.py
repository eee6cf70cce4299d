"""Stage `learning_curve`: the best setting of a run of `finetune`, trained on parts of its training records.

The parts are nested, 100 records within 300 within 1,000, and every label has its share in each. Dev, test and the
labels are those of the run, whose own trials are the last point. So the curve says what more records would be worth.
It has `curve.json` with the scores of every size and seed.

Time grows with the sizes x seeds x epochs; a size takes its share of a trial of the run. Memory is that of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from tasks.downstream.own import task_in
from tasks.downstream.task_data import load_task_data
from tasks.finetune.grid import run_trials
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.finetune.result import DIVERGED
from tasks.finetune.scores import TRIALS
from tasks.finetune.stage import make_trials

CURVE = "curve.json"


class LearningCurveParams(FinetuneParams):
    """Parameters of fine-tuning, and the sizes of the training set."""

    sizes: tuple[int, ...] = Field(default=(100, 300, 1_000), min_length=1, description="records to train on; and all")


@stage(name="learning_curve", version=1, params=LearningCurveParams, unit="epoch", heavy=True)
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
    trials = [
        trial
        for trial in make_trials(spec, params, model, files, f"{out.scratch}/trials")
        if {name: getattr(trial, name) for name in setting} == setting
    ]
    sizes = sorted({size for size in params.sizes if size < len(data.train)})
    parts = [trial.model_copy(update={"train_size": size}) for size in sizes for trial in trials]
    total = sum(trial.epochs for trial in parts)
    results = run_trials(
        parts,
        params.resources,
        lambda done, note: out.on_progress(f"learning-curve-{spec.name}", round(done), total, note),
    )
    points = [_point(result.trial.train_size, result.trial.seed, result) for result in results]  # type: ignore[attr-defined]
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
    out.count("trials", len(parts))


def _point(size: int | None, seed: int, result: Any) -> dict[str, Any]:
    return {"size": size, "seed": seed, "dev": result.dev, "test": result.test}
