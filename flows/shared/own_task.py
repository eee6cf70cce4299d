"""A run on a user's own file: its table to a model, scores and a page; what the flows of own tasks share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flows.recipes.own_task import load_own_finetuning, load_own_task
from infra.errors import UserError
from infra.stage import StageInput
from tasks.downstream.catalogue import task
from tasks.downstream.own import OWN_TASK_FILE, OwnTask
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.own.files import OwnFiles
from tasks.own.stage import own_task
from tasks.runner import stage_runner, warn

logger = logging.getLogger("flows")

SIZES = (100, 300, 1_000)
"""Sizes of a learning curve, besides all."""


@dataclass(frozen=True, kw_only=True)
class OwnRun:
    """Parameters that the flows of own tasks share; their docstrings have the meanings."""

    columns: Mapping[str, Any]
    """Fields of `OwnTaskParams` that a flow sets itself."""
    data: str | None
    model: str | None
    dev: str | None
    test: str | None
    group_field: str | None
    split_field: str | None
    dev_share: float
    test_share: float
    split_seed: int
    metric: str | None
    strict: bool
    learning_curve: bool | list[int]
    quick: bool
    seeds: list[int] | None
    knowledge: str | None
    overrides: dict[str, Any] | None
    class_weights: bool = False


def train_on_own_file(given: OwnRun) -> str:
    """Read the file, fine-tune on it, and write the page; return the folder of the best model.

    Raises:
        UserError: a parameter, the model, or the file cannot be used.
    """
    shared = ("group_field", "split_field", "dev_share", "test_share", "split_seed", "metric", "strict")
    columns = {**given.columns, **{name: getattr(given, name) for name in shared}}
    params = load_own_task(columns, given.overrides)
    training = (given.quick, given.seeds, given.class_weights, given.overrides)
    load_own_finetuning(params.form, *training)  # a mistake is explained before any work
    if given.data is None:
        raise UserError("No data was given. Give a file with a row for each record, as in --param data=FILE.csv.")
    if given.model is None:
        raise UserError("No encoder was given. Give its folder, as in --param model=FOLDER.")
    encoder = ModelFolder(given.model, knowledge=given.knowledge)
    files = OwnFiles(given.data, given.dev, given.test)
    # Torch is imported here, so that mistakes are explained without it.
    from tasks.finetune.learning_curve import LearningCurveParams, learning_curve
    from tasks.finetune.stage import finetune
    from tasks.reports.finetune import ReportFinetuneParams, report_finetune

    with stage_runner() as run:
        records = run(own_task, params, files=files)
        own = OwnTask.model_validate_json(records.read_file(OWN_TASK_FILE))
        _tell(own)
        tuning = load_own_finetuning(own.task, *training, hidden_size=encoder.hidden_size)
        inputs: dict[str, StageInput] = {"model": encoder, "data": TaskFiles(task(own.task), records.path)}
        tuned = run(finetune, tuning, **inputs)
        with run.checks():
            _warn_of_cuts(tuned.manifest.counters)
        pages: dict[str, StageInput] = {"run": tuned}
        if given.learning_curve:
            sizes = SIZES if given.learning_curve is True else tuple(given.learning_curve)
            pages["curve"] = run(learning_curve, LearningCurveParams(**dict(tuning), sizes=sizes), **inputs, run=tuned)
        run(report_finetune, ReportFinetuneParams(), **pages)
        return f"{tuned.path}/model"


def _tell(own: OwnTask) -> None:
    """Log where the splits come from, and what is odd about the file, each time that it is used."""
    for split, origin in own.origins.items():
        logger.info("%s: %s", split, origin)
    for note in own.notes:
        logger.info("%s", note)
    for warning in own.warnings:
        warn(warning)


def _warn_of_cuts(counters: Mapping[str, int]) -> None:
    """Warn of texts whose ends no model reads."""
    cut = counters.get("truncated", 0)
    if cut:
        warn(
            f"{cut:,} texts are longer than a sequence, and their ends are not read. finetune.max_length sets the "
            "tokens of a sequence, up to the positions of the encoder."
        )
