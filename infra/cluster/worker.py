"""Worker process of `infra.cluster.processes`: `python -m infra.cluster.worker SOCKET PARENT`.

It does the units of work that arrive on its socket, one after the other, until the socket closes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from infra import builds
from infra.console.progress import shown_log

ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A worker has one core: with a thread for each core of the machine, workers would wait for one another. Arrow and
numpy obey OpenMP's variable too."""


@dataclass(frozen=True)
class Task:
    """A unit of work on its way to a worker."""

    place: builds.BuildPlace
    function: Callable[..., None]
    unit: builds.Unit


@dataclass(frozen=True)
class Done:
    """The record of a finished unit."""

    record: builds.WorkRecord


@dataclass(frozen=True)
class Failed:
    """The error that a unit raised, with its traceback in this process as a note."""

    error: BaseException


def main() -> None:
    """Serve until the socket closes or the parent dies."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    connection = Connection(descriptor)
    with shown_log(), contextlib.suppress(EOFError, OSError):  # the parent is gone, and needs no answer
        connection.send(None)  # imports are done: ready for work
        while True:
            connection.send(_answer(connection.recv_bytes()))
    os._exit(0)


def _answer(message: bytes) -> Done | Failed:
    try:
        task: Task = pickle.loads(message)
        return Done(builds.run_unit(task.place, task.function, task.unit))
    except Exception as error:
        return Failed(_portable(error))


def _portable(error: Exception) -> BaseException:
    """Return the error as it can travel: itself, or a RuntimeError with its words where it does not pickle."""
    text = "".join(traceback.format_exception(error))
    error.add_note(f"In a worker process:\n{text}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\nIn a worker process:\n{text}")
    return error


def _die_with(parent: int) -> None:
    """End this process as soon as its parent is gone, also in the middle of a unit."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    # Other systems have no such signal; on Linux this covers a parent that died before the signal was asked for.
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    # Functions and records refer to this module by its name, not as `__main__`.
    from infra.cluster.worker import main as serve

    serve()
