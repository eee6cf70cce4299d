"""Catalogue of the papers' downstream tasks: one entry per task, one file per suite.

To add a task, add an entry to `TASKS` in the file of its suite. Here is one for a file `a_train.tsv` with lines
`label<tab>text`:

    TaskSpec(
        name="my-intent",
        title="MyIntent",
        suites=("mine",),
        kind=Kind.SINGLE,
        reader=read_tsv,
        columns=("label", "text"),
        files=files("a_{}.tsv"),
        metric="accuracy",
        max_length=64,
        grid=SMEDBERT_GRID,
    ),

Then `read_split(task("my-intent"), folder, "train")` returns its checked records, and `finetune/my-intent` trains on
them. A new suite is a new file and one line in `TASKS` below. A new file format is a function that yields `Row`s
(tasks/downstream/readers/json.py).

File and field names are the benchmarks' own; metrics are those of the papers' tables.
"""

from __future__ import annotations

import difflib

from infra.errors import UserError
from tasks.downstream.catalogue import cblue, chineseblue, cmedlms, embert, medical_qa, own, pap, smedbert
from tasks.downstream.spec import TaskSpec

__all__ = ["TASKS", "suite", "suites", "task"]

TASKS: tuple[TaskSpec, ...] = (
    *cblue.TASKS,
    *medical_qa.TASKS,
    *chineseblue.TASKS,
    *embert.TASKS,
    *smedbert.TASKS,
    *pap.TASKS,
    *cmedlms.TASKS,
)
"""Tasks of the papers; those on users' own files are in own.py."""

_BY_NAME = {spec.name: spec for spec in (*TASKS, *own.TASKS)}


def task(name: str) -> TaskSpec:
    """Return the task called `name`.

    Raises:
        UserError: there is no such task; the message suggests the closest names.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    # Titles count as names here: CMeEE suggests cmeee.
    known = {word.lower(): spec.name for spec in _BY_NAME.values() for word in (spec.title, spec.name)}
    close = dict.fromkeys(known[one] for one in difflib.get_close_matches(name.lower(), known, cutoff=0.5))
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Known tasks: {', '.join(_BY_NAME)}."
    raise UserError(f"There is no task {name!r}. {hint}")


def suites() -> tuple[str, ...]:
    """Return the names of all suites."""
    return tuple(dict.fromkeys(name for spec in TASKS for name in spec.suites))


def suite(name: str) -> tuple[TaskSpec, ...]:
    """Return the tasks of a suite, in the order of its paper's table.

    Raises:
        UserError: there is no such suite.
    """
    found = tuple(spec for spec in TASKS if name in spec.suites)
    if not found:
        close = difflib.get_close_matches(name.lower(), suites(), n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known suites: {', '.join(suites())}."
        raise UserError(f"There is no suite {name!r}. {hint}")
    return found
