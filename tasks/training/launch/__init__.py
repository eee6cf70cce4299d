"""Launching long work and following it: the same for pre-training and for embedding a knowledge graph.

A stage describes its work (`LongWork`) and calls `launch`, which writes `run.json`, starts the work's program and
follows its metrics until it has ended. Where the program runs is decided here:

    child.py     a child process on this machine
    ray_job.py   a job on the Ray cluster whose job endpoint RAY_ADDRESS names (http…)

Another place is another file with a function of the same arguments, and a branch in `launch`. KubeRay is one: a RayJob
resource made from `run.json`. Whatever the place, cancelled work is stopped; a failure is reported as in ending.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.settings import Settings, is_job_endpoint
from infra.stage import ProgressListener
from tasks.training.launch.child import run_child
from tasks.training.launch.follow import followed
from tasks.training.launch.ray_job import run_job
from tasks.training.launch.work import LongWork, Progress

__all__ = ["LongWork", "Progress", "followed", "job_endpoint", "launch"]


def launch(work: LongWork, on_progress: ProgressListener) -> None:
    """Have a program do some work, and follow it to its end.

    Raises:
        UserError: the program reported one, or the cluster cannot be used.
        EndpointLostError: the cluster's job endpoint fell silent.
        RuntimeError: the program failed; the message has its last lines.
    """
    work.write()
    log = _log_folder(work.storage) / "driver.log"
    address = job_endpoint()
    if address is None:
        run_child(work, log, on_progress)
    else:
        run_job(work, address, log, on_progress)


def job_endpoint() -> str | None:
    """Return the address of the cluster that takes long work as jobs; None: work is done on this machine."""
    address = Settings.from_environment().ray_address
    return address if address is not None and is_job_endpoint(address) else None


def _log_folder(storage: str) -> Path:
    """Return the folder for the program's output: the storage if it is local."""
    filesystem, path = fsspec.core.url_to_fs(storage)
    is_local = isinstance(filesystem, LocalFileSystem)
    return Path(path) if is_local else Path(tempfile.mkdtemp(prefix="yiwen-run-"))
