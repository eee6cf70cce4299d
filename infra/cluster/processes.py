"""Executor for one machine: units of work in worker processes of our own, started when there is enough to do.

A worker is `python -m infra.cluster.worker`, a plain child process at the other end of a socket. It does one unit at a
time, with one thread. It lives until the run ends, and never longer than the process that started it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from infra import builds
from infra.cluster.worker import ONE_THREAD, Done, Failed, Task
from infra.errors import UserError
from infra.place import IMPORTED_FROM, module_name
from infra.stage import SerialExecutor

logger = logging.getLogger(__name__)

SECONDS_ALONE = 2.0
"""Time that this process works by itself, summed over all stages, before it starts workers. They take one to two
seconds of processor time each to start, too much for a handful of lines."""

RETRIES = 3
"""Times that a unit is done again after the worker that did it was killed."""


@dataclass
class _Waiting:
    """A unit to be done, and the number of workers that died of it."""

    unit: builds.Unit
    deaths: int = 0


class ProcessExecutor:
    """Runs units in worker processes; a single unit, or what is soon done, is done in this process.

    Units may finish in any order. A worker that is killed, for example because memory ran out, is replaced, and its
    unit is done again. Close the executor to end its workers.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.in_process = True
        self._pool: list[_Worker] = []
        self._is_started = False
        self._failed_starts = 0
        self._seconds_alone = SECONDS_ALONE

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        """Do the units and yield their records.

        Raises:
            UserError: workers were killed `RETRIES` + 1 times while they did the same unit.
        """
        self.in_process = True
        if len(units) < 2 or self.workers < 2:
            yield from SerialExecutor().run(place, function, units)
            return
        waiting = deque(_Waiting(unit) for unit in units)
        while waiting and not self._pool and self._seconds_alone > 0:
            yield self._do_here(place, function, waiting)
        try:
            yield from self._do_in_workers(place, function, waiting)
        finally:
            # After an error, or where the caller asks for no more, other units are still being written.
            for worker in [worker for worker in self._pool if worker.item is not None]:
                self._remove(worker)

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._pool):
            self._remove(worker)

    def _do_here(
        self, place: builds.BuildPlace, function: Callable[..., None], waiting: deque[_Waiting]
    ) -> builds.WorkRecord:
        self.in_process = True
        began = time.monotonic()
        record = builds.run_unit(place, function, waiting.popleft().unit)
        self._seconds_alone -= time.monotonic() - began
        return record

    def _do_in_workers(
        self, place: builds.BuildPlace, function: Callable[..., None], waiting: deque[_Waiting]
    ) -> Iterator[builds.WorkRecord]:
        while waiting or any(worker.item is not None for worker in self._pool):
            while waiting and len(self._pool) < min(self.workers, len(waiting) + self._busy()):
                self._pool.append(_Worker())
            finished = self._look(waiting, seconds=0)
            self._hand_out(place, function, waiting)
            if not finished and waiting and not self._is_started:
                yield self._do_here(place, function, waiting)  # workers are still importing
            elif not finished:
                finished = self._look(waiting, seconds=None)
                self._hand_out(place, function, waiting)
            # All idle workers have work before the caller, who may take its time, is given anything.
            self.in_process = False
            yield from finished

    def _busy(self) -> int:
        return sum(worker.item is not None for worker in self._pool)

    def _hand_out(self, place: builds.BuildPlace, function: Callable[..., None], waiting: deque[_Waiting]) -> None:
        for worker in self._pool:
            if waiting and worker.is_ready and worker.item is None:
                item = waiting.popleft()
                if not worker.give(Task(place, function, item.unit), item):
                    waiting.appendleft(item)  # the worker has just died: `_look` finds that out

    def _look(self, waiting: deque[_Waiting], seconds: float | None) -> list[builds.WorkRecord]:
        """Return what workers have finished; waits up to `seconds` for one of them (None: until there is news)."""
        finished = []
        heard = wait([worker.connection for worker in self._pool], seconds)
        for worker in [worker for worker in self._pool if worker.connection in heard]:
            item = worker.item
            try:
                answer = worker.receive()
            except (EOFError, OSError):
                self._remove(worker)
                self._note_death(worker, item, waiting)
                continue
            self._is_started, self._failed_starts = True, 0
            if isinstance(answer, Failed):
                raise answer.error
            if isinstance(answer, Done):
                finished.append(answer.record)
        return finished

    def _note_death(self, worker: _Worker, item: _Waiting | None, waiting: deque[_Waiting]) -> None:
        how = worker.how_it_ended()
        if item is None:
            self._failed_starts += not worker.is_ready
            if self._failed_starts > RETRIES:
                raise RuntimeError(f"A worker process {how} before it was ready, {self._failed_starts} times in a row.")
            return
        item.deaths += 1
        if item.deaths > RETRIES:
            raise UserError(
                f"A worker process {how} {item.deaths} times in a row at the same unit of work (part {item.unit.index})"
                ". Memory probably ran out: set YIWEN_WORKERS to a lower number, or make parts smaller (such as "
                "ingest.bytes_per_part), then run again. Finished parts are kept."
            )
        logger.warning("A worker process %s; part %d is done again", how, item.unit.index)
        waiting.appendleft(item)

    def _remove(self, worker: _Worker) -> None:
        self._pool.remove(worker)
        worker.kill()


class _Worker:
    """A worker process and our end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, _sigint_blocked():
            # The mask is inherited: Ctrl-C in a terminal reaches the whole process group, and only we answer it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", module_name("infra/cluster/worker.py"), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output is for the result of the run
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(_search_path())},
            )
        self.connection = Connection(ours.detach())
        self.is_ready = False
        self.item: _Waiting | None = None

    def give(self, task: Task, item: _Waiting) -> bool:
        """Send a unit; returns whether the worker was there to take it."""
        try:
            self.connection.send(task)
        except OSError:
            return False
        self.item = item
        return True

    def receive(self) -> Any:
        """Return the worker's answer; raises EOFError where it has died."""
        answer = self.connection.recv()
        self.is_ready = True
        self.item = None
        return answer

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self._process.kill()
        self._process.wait()

    def how_it_ended(self) -> str:
        """Return how the process ended, to follow "A worker process"."""
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return "was killed (SIGKILL)"
        return f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"


def _search_path() -> list[str]:
    """Return the folders of modules for workers: our code first, then those that this process was given."""
    return [str(IMPORTED_FROM), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
