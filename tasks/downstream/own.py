"""Description of a task on a user's own files, as the stage `own_task` writes it beside the task's records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.spec import Reject, TaskSpec

OWN_TASK_FILE = "own_task.json"


class OwnTask(BaseModel):
    """Content of `own_task.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    """Name in tasks/downstream/catalogue/own.py."""
    title: str
    metric: str
    more_metrics: tuple[str, ...]
    text_fields: tuple[str, ...]
    """Columns of the texts in the user's file, by which prediction finds them too."""
    origins: dict[str, str]
    """Where each split comes from, for people."""
    labels: dict[str, dict[str, int]]
    """Number of records, or of entities, with each label, by split."""
    notes: tuple[str, ...] = ()
    """What a user should know of the records."""
    warnings: tuple[str, ...] = ()
    """What makes the scores mean less, or the file look wrong."""
    rejects: tuple[Reject, ...] = ()
    """Rows that were left out."""


def read_own_task(folder: str | Path) -> OwnTask | None:
    """Return the description in a folder of records; None for the official files of a benchmark.

    Raises:
        UserError: it is damaged.
    """
    path = Path(folder) / OWN_TASK_FILE
    if not path.is_file():
        return None
    try:
        return OwnTask.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}. Delete its folder and run the flow again.") from error


def task_in(name: str, folder: str | Path) -> TaskSpec:
    """Return the task called `name`, with the title and metric of the user's own files if the folder has such.

    Raises:
        UserError: there is no such task, or the folder's description is damaged.
    """
    spec, own = task(name), read_own_task(folder)
    if own is None or own.task != name:
        return spec
    return replace(spec, title=own.title, metric=own.metric, more_metrics=own.more_metrics)
