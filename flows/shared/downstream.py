"""Downstream tasks of a run: which ones a user names, and their official files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from flows.recipes.choices import one_of
from infra.errors import UserError
from tasks.downstream.catalogue import TASKS, suite, suites, task
from tasks.downstream.spec import TaskSpec
from tasks.downstream.task_data import check_kind
from tasks.finetune.inputs import TaskFiles
from tasks.runner import warn

TaskName = Annotated[str, one_of([*suites(), *(spec.name for spec in TASKS)], "Another")]
"""Name of a task or a suite."""


def chosen_tasks(tasks: str | Sequence[str]) -> list[TaskSpec]:
    """Return the tasks of a task's name, a suite's name, or a list of both, each once.

    Raises:
        UserError: no task was given, a name is unknown, or the only task is one that is not fine-tuned.
    """
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    found = [spec for name in names for spec in (suite(name) if name in suites() else [task(name)])]
    if not found:
        raise UserError("No task was given. `python -m flows list` shows them, as finetune/<task>.")
    if len(found) == 1:
        check_kind(found[0])
    return list({spec.name: spec for spec in found}.values())


def task_files(specs: Sequence[TaskSpec], data: str) -> dict[str, TaskFiles]:
    """Return the files of each task by its name; tasks without files are skipped with a warning.

    Raises:
        UserError: there is no such folder, it has files of no task, or the only task has none.
    """
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
            warn(f"{spec.title} is skipped: {error}")
    if not found:
        raise UserError(f"{data} has no files of {', '.join(spec.title for spec in specs)}.")
    return found
