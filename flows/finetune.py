"""Flow `finetune`: an encoder and the official files of tasks to scores, models and submission files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.recipes.finetuning import FinetuneRecipe, load_finetuning
from flows.shared.downstream import TaskName, chosen_tasks, task_files
from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.finetune.compare import open_run
from tasks.finetune.inputs import ModelFolder
from tasks.finetune.params import FinetuneParams
from tasks.normalise.params import TASK as NORMALISED
from tasks.runner import flow, stage_runner

SETTINGS = (FinetuneRecipe,)
"""Models of the keys of `overrides`."""


@flow(name="finetune")
def finetune(
    tasks: TaskName | list[TaskName],
    model: str | None = None,
    data: str | None = None,
    quick: bool = False,
    seeds: list[int] | None = None,
    normaliser: str | None = None,
    knowledge: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Fine-tune an encoder on one task, several, or a suite of them; what was done before is reused.

    Args:
        tasks: a task (`cmeee`), a suite (`cblue`), or a list of tasks.
        model: folder of the encoder in Hugging Face's layout, ours or another's; or the id of a model in the local
            cache of the Hugging Face hub (docs/hugging_face.md).
        data: folder with the official files, side by side or each task's in a folder of its name. Tasks of a suite
            without files are skipped, with a warning.
        quick: one setting and one seed per task, instead of the paper's grid.
        seeds: seeds of the runs that a setting is judged by; 1, 2 and 3 by default.
        normaliser: folder that normalise/chip-cdn printed for the same encoder; its scores and its submission file are
            those of CHIP-CDN in the table and the archive of a suite.
        knowledge: folder of the knowledge of a model that reads some; needed only if the model is not in the artifact
            store of its knowledge.
        overrides: `finetune.<key>` to values, for any field of `tasks.finetune.stage.FinetuneParams`.

    Returns:
        The folder of the best model for one task, of the table of scores for several.
    """
    specs = chosen_tasks(tasks)
    params = {spec.name: load_finetuning(spec.name, quick, seeds, overrides) for spec in specs}
    if model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    if data is None:
        raise UserError("No data was given. Give the folder with the official files, as in --param data=FOLDER.")
    encoder = ModelFolder(model, knowledge=knowledge)
    runs = {} if normaliser is None else _normaliser_run(normaliser, encoder, params)
    files = task_files([spec for spec in specs if spec.name not in runs], data)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.finetune.stage import finetune as finetune_stage
    from tasks.reports.finetune import ReportFinetuneParams, report_finetune
    from tasks.reports.suite import ReportSuiteParams, report_suite

    with stage_runner() as run:
        for name, own in files.items():
            runs[name] = run(finetune_stage, params[name], model=encoder, data=own)
            run(report_finetune, ReportFinetuneParams(), run=runs[name])
        if len(specs) == 1:
            return f"{runs[specs[0].name].path}/model"
        title = tasks if isinstance(tasks, str) else ", ".join(tasks)
        suite = ReportSuiteParams(title=title, model=encoder.name, tasks=tuple(spec.name for spec in specs))
        return str(run(report_suite, suite, **runs).path)


def _normaliser_run(folder: str, encoder: ModelFolder, params: Mapping[str, FinetuneParams]) -> dict[str, Artifact]:
    """Return the run of CHIP-CDN by the name of its task.

    Raises:
        UserError: the folder holds no normaliser, it was trained with another encoder, or CHIP-CDN is not a task here.
    """
    if NORMALISED not in params:
        title = task(NORMALISED).title
        raise UserError(f"{folder} answers {title}, which is not among the tasks. Leave it out, or give tasks=cblue.")
    found = open_run(folder, ("normaliser",))
    trained = (found.manifest.inputs["model"].fingerprint, found.manifest.params["random_weights"])
    if trained != (encoder.fingerprint, params[NORMALISED].random_weights):
        raise UserError(
            f"{folder} was trained with another encoder than {encoder.path}, and a row of the table is of one. Run "
            f"normalise/chip-cdn with --param model={encoder.path}."
        )
    return {NORMALISED: found}
