"""Launching long work and following it: the same for pre-training and for embedding a knowledge graph.

A stage describes its work (`LongWork`) and calls `launch`, which writes `run.json`, starts the work's program as a
child process (child.py) and follows its metrics until it has ended. Cancelled work is stopped; a failure is reported
as in ending.py. On a cluster that takes jobs the whole stage is a job (infra/cluster/jobs), and the program a child
process there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.stage import ProgressListener
from tasks.training.launch.child import run_child
from tasks.training.launch.follow import followed
from tasks.training.launch.tracked import curves_tracked
from tasks.training.launch.work import LongWork, Progress

__all__ = ["LongWork", "Progress", "followed", "launch"]


def launch(work: LongWork, on_progress: ProgressListener) -> None:
    """Have a program do some work, and follow it to its end.

    Raises:
        UserError: the program reported one.
        RuntimeError: the program failed; the message has its last lines.
        KilledError: one kind of RuntimeError: the program was killed from outside.
    """
    work.write()
    with curves_tracked(work):
        run_child(work, _log_folder(work.storage) / "driver.log", on_progress)


def _log_folder(storage: str) -> Path:
    """Return the folder for the program's output: the storage if it is local."""
    filesystem, path = fsspec.core.url_to_fs(storage)
    is_local = isinstance(filesystem, LocalFileSystem)
    return Path(path) if is_local else Path(tempfile.mkdtemp(prefix="yiwen-run-"))
