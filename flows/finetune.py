"""Flow `finetune`: an encoder and the official files of tasks to scores, models and files to hand in."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.artifacts import Artifact
from infra.errors import UserError
from tasks.downstream.catalogue import suite, suites, task
from tasks.downstream.spec import TaskSpec
from tasks.downstream.task_data import check_kind
from tasks.finetune.compare import open_run
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.stage import FinetuneParams
from tasks.finetune.stage import finetune as finetune_stage
from tasks.normalise.params import TASK as NORMALISED
from tasks.reports.finetune import ReportFinetuneParams, report_finetune
from tasks.reports.suite import ReportSuiteParams, report_suite
from tasks.runner import flow, stage_runner

logger = logging.getLogger(__name__)


@flow(name="finetune")
def finetune(
    tasks: str | list[str],
    model: str | None = None,
    data: str | None = None,
    quick: bool = False,
    seeds: list[int] | None = None,
    normaliser: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> str:
    """Fine-tune an encoder on one task, several, or a suite of them; what was done before is reused.

    Args:
        tasks: a task (`cmeee`), a suite (`cblue`), or a list of tasks.
        model: folder of the encoder in Hugging Face's layout, ours or another's.
        data: folder with the official files, side by side or each task's in a folder of its name. Of a suite, tasks
            without files are skipped, and said so.
        quick: one setting and one seed a task, instead of the paper's grid.
        seeds: of the runs that a setting is judged by; 1, 2 and 3 by default.
        normaliser: what normalise/chip-cdn printed for the same encoder; its scores and its file to hand in stand for
            CHIP-CDN in the table and the archive of a suite.
        overrides: `finetune.<key>` to values, for any field of `tasks.finetune.stage.FinetuneParams`.

    Returns:
        The folder of the best model where it is one task, else that of the table of scores.
    """
    specs = chosen_tasks(tasks)
    params = {spec.name: task_params(spec, quick, seeds, overrides) for spec in specs}
    if model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    if data is None:
        raise UserError("No data was given. Give the folder with the official files, as in --param data=FOLDER.")
    encoder = ModelFolder(model)
    runs = {} if normaliser is None else normaliser_run(normaliser, encoder, params)
    files = task_files([spec for spec in specs if spec.name not in runs], data)
    with stage_runner() as run:
        for spec in specs:
            if spec.name in files:
                runs[spec.name] = run(finetune_stage, params[spec.name], model=encoder, data=files[spec.name])
                run(report_finetune, ReportFinetuneParams(), run=runs[spec.name])
        if len(specs) == 1:
            return f"{runs[specs[0].name].path}/model"
        named = tasks if isinstance(tasks, str) else ", ".join(tasks)
        given = ReportSuiteParams(title=named, model=encoder.path.name, tasks=tuple(spec.name for spec in specs))
        return str(run(report_suite, given, **runs).path)


def chosen_tasks(tasks: str | Sequence[str]) -> list[TaskSpec]:
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    found = [spec for name in names for spec in (suite(name) if name in suites() else [task(name)])]
    if not found:
        raise UserError("No task was given. `python -m flows list` shows them, as finetune/<task>.")
    if len(found) == 1:
        check_kind(found[0])
    return list({spec.name: spec for spec in found}.values())


def task_params(
    spec: TaskSpec, quick: bool, seeds: Sequence[int] | None, overrides: dict[str, Any] | None
) -> FinetuneParams:
    given: dict[str, Any] = {"task": spec.name, "quick": quick}
    if seeds is not None:
        given["seeds"] = tuple(seeds)
    given |= {_field(key): value for key, value in (overrides or {}).items()}
    try:
        return FinetuneParams(**given)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise UserError(f"{where}: {problem['msg']} (given: {problem['input']!r})") from error


def normaliser_run(folder: str, encoder: ModelFolder, params: Mapping[str, FinetuneParams]) -> dict[str, Artifact]:
    """The run of CHIP-CDN by the name of its task.

    Raises:
        UserError: it is none, is of another encoder than the other tasks, or CHIP-CDN is none of them.
    """
    if NORMALISED not in params:
        raise UserError(
            f"{folder} answers {task(NORMALISED).title}, which is none of the tasks. Leave it out, or give tasks=cblue."
        )
    found = open_run(folder, ("normaliser",))
    trained = (found.manifest.inputs["model"].fingerprint, found.manifest.params["random_weights"])
    if trained != (encoder.fingerprint, params[NORMALISED].random_weights):
        raise UserError(
            f"{folder} was trained with another encoder than {encoder.path}, and a row of the table is of one. Run "
            f"normalise/chip-cdn with --param model={encoder.path}."
        )
    return {NORMALISED: found}


def _field(key: str) -> str:
    """The parameter that a dotted key names."""
    section, _, name = key.partition(".")
    known = sorted(FinetuneParams.model_fields.keys() - {"task"})
    if section == "finetune" and name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean 'finetune.{close[0]}'?" if close else f"known are finetune.* of {', '.join(known)}"
    raise UserError(f"unknown key {key!r}; {hint}")


def task_files(specs: Sequence[TaskSpec], data: str) -> dict[str, TaskFiles]:
    """The files of each task that has some; of one task alone, it must."""
    if len(specs) == 1:
        return {specs[0].name: TaskFiles(specs[0], data)}
    if not Path(data).expanduser().is_dir():
        raise UserError(f"There is no folder {data}. Give the one with the official files, as in --param data=FOLDER.")
    found: dict[str, TaskFiles] = {}
    for spec in specs:
        try:
            check_kind(spec)
            found[spec.name] = TaskFiles(spec, data)
        except UserError as error:
            logger.warning("%s is skipped: %s", spec.title, error)
    if not found:
        raise UserError(f"{data} holds files of none of {', '.join(spec.title for spec in specs)}.")
    return found
