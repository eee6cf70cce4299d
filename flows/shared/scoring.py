"""Models of one study scored by the same downstream tasks."""

from __future__ import annotations

from flows.recipes.finetuning import load_finetuning
from flows.shared.downstream import chosen_tasks, task_files
from flows.shared.pretraining import TrainedModel
from infra.errors import UserError
from tasks.downstream.spec import TaskSpec
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.runner import StageRunner

Downstream = list[tuple[TaskSpec, FinetuneParams, TaskFiles]]
"""Tasks that models are scored by."""


def downstream_tasks(tasks: str | list[str] | None, data: str | None, quick: bool) -> Downstream:
    """Return the tasks that a user names with their files in `data`; none for None. Raises `UserError` for mistakes."""
    if tasks is None:
        return []
    if data is None:
        raise UserError("No data was given for the tasks. Give the folder with the official files as data.")
    specs = chosen_tasks(tasks)
    files = task_files(specs, data)
    return [(spec, load_finetuning(spec.name, quick), files[spec.name]) for spec in specs if spec.name in files]


def score(run: StageRunner, trained: TrainedModel, downstream: Downstream) -> dict[str, float]:
    """Fine-tune a model on each task; return the dev scores of the best runs by task, in percent."""
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.finetune.stage import finetune as finetune_stage
    from tasks.reports.finetune import best_scores

    found = {}
    for spec, params, files in downstream:
        tuned = run(finetune_stage, params, model=ModelFolder(str(trained.model.path)), data=files)
        main = next(row for row in best_scores(tuned) if row["split"] == "dev" and row["main"])
        found[spec.title] = round(100 * main["value"], 2)
    return found
