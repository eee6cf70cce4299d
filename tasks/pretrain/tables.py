"""Checks of the tables that a training reads, before any worker is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from infra import schemas
from infra.artifacts import Artifact
from infra.errors import UserError
from models import objectives
from models.training.columns import MENTIONS
from tasks.pretrain.linked import linked_entities
from tasks.training.run_spec import RunSpec
from tasks.training.sources import source_of

if TYPE_CHECKING:  # imports torch, which a reused run need not wait for
    from models.training.tasks import Task

LINK = "Give the flow knowledge graphs (--param graphs=…) and --param mentions=true."


def check_examples(spec: RunSpec, artifacts: Mapping[str, Artifact]) -> None:
    """Fail early on anything in the tables of a run that would stop every worker.

    The number of parts does not matter, since workers share rows.

    Args:
        artifacts: the run's inputs by name.

    Raises:
        UserError: no input has the table of a task, or several have; or the table has no rows, lacks a column that the
            task reads, has fewer rows than a batch, or fewer than there are workers. The message names the table and
            the remedy.
    """
    for task in objectives.describe(spec.objective, spec.model).tasks:
        source = source_of(task.table, artifacts, spec.objective)
        _check_columns(task, source, spec.objective)
        _check_rows(task, source, spec)


def _check_columns(task: Task, source: Artifact, objective: str) -> None:
    known = schemas.TABLES[task.table].names
    missing = [column.name for column in task.columns if column.name not in known]
    if missing:
        raise UserError(
            f"Objective {objective} reads the columns {', '.join(missing)} with these settings, and the table "
            f"{task.table} lacks them. It has {', '.join(known)}."
        )
    # The column is always there; it is empty where the stage was given no entities to link.
    if MENTIONS in task.columns and linked_entities(source) is None:
        raise UserError(
            f"Objective {objective} reads mentions of entities, and no entities were linked for {source.path}. {LINK}"
        )


def _check_rows(task: Task, source: Artifact, spec: RunSpec) -> None:
    rows, held_out = source.rows(task.table), source.rows(task.held_out)
    for table, count in ((task.table, rows), (task.held_out, held_out)):
        if not count:
            raise UserError(
                f"Task {task.name} of objective {spec.objective} reads the table {table} of {source.path}, which has "
                "no rows. Give more data."
            )
    batch = spec.config.batch_of(task.name)
    size, setting = batch.batch_size, "training."
    if task.name in spec.config.tasks:
        setting += f"tasks.{task.name}."
    if size is None:  # batch_tokens is set: any number of rows may make a batch
        size = rows
    if size > rows:
        raise UserError(
            f"{setting}batch_size is {size}, but there are only {rows} {task.table}, and a batch has no example twice. "
            f"Give more text or reduce {setting}batch_size."
        )
    workers = spec.allocation.most_workers
    for what, count in (("sequences in a batch", size), ("held-out examples", held_out)):
        if workers > count:
            raise UserError(
                f"cluster.workers is {workers}, more than the {what} ({count}), so some would have nothing to do. "
                f"Reduce cluster.workers, or raise {setting}batch_size or encode.held_out_share."
            )
