"""Streams of an objective's tasks: by name, each in an order of its own, and described for a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from models.training.reader import ExampleStream
from models.training.tasks import Task

Streams = ExampleStream | Mapping[str, ExampleStream]
"""The streams of an objective's tasks by name, or that of its only task."""

Description = Mapping[str, Mapping[str, Any]]
"""By task, what decides which rows a position in its stream leads to, as plain values."""


def stream_seed(seed: int, task: Task, tasks: Sequence[Task]) -> int:
    """Return the seed of the order of a task's rows: that of the run for an only task, one of its own for any other.

    Two tasks that read the same table thus see its rows in different orders.
    """
    if len(tasks) == 1:
        return seed
    digest = hashlib.sha256(f"{seed} {task.name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1  # under 2^63, as every seed


def by_task(tasks: Sequence[Task], given: Streams) -> dict[str, ExampleStream]:
    """Return the streams by the names of the tasks, in their order.

    Raises:
        ValueError: a task has no stream, or a stream no task.
    """
    names = [task.name for task in tasks]
    streams = given if isinstance(given, Mapping) else dict.fromkeys(names[:1], given)
    if set(streams) != set(names):
        raise ValueError(f"the tasks are {', '.join(names)}, but the streams are for {', '.join(streams)}")
    return {name: streams[name] for name in names}


def described(tasks: Sequence[Task], streams: Mapping[str, ExampleStream]) -> dict[str, dict[str, Any]]:
    """Return what a checkpoint says of the streams."""
    return {
        task.name: {
            "table": task.table,
            "columns": [column.name for column in task.columns],
            "rows": streams[task.name].rows,
            "parts": streams[task.name].parts,
            "seed": streams[task.name].seed,
        }
        for task in tasks
    }


def check_streams(own: Description, saved: Description) -> None:
    """Compare the streams of a run with those that its checkpoint describes.

    Raises:
        ValueError: they differ, so that the checkpoint's positions lead to other rows; the message names the tasks and
            what differs.
    """
    differing = [f"task {name} is only there" for name in saved if name not in own]
    differing += [f"task {name} is only here" for name in own if name not in saved]
    differing += [
        f"the {key} of task {name} is {saved[name].get(key)!r} there and {value!r} here"
        for name in own
        if name in saved
        for key, value in own[name].items()
        if saved[name].get(key) != value
    ]
    if differing:
        raise ValueError(
            f"this checkpoint belongs to a run on other rows: {'; '.join(differing)}. Resume with the rows that it was "
            "made with, or start over without it."
        )
