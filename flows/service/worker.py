"""A worker: a process that holds one engine. Its parent sends batches through a pipe, and can end it for good.

A worker ends when its parent does: it sees the end of the pipe. It ignores Ctrl-C and SIGTERM, which reach it too when
a terminal or a container stops the service; requests in progress still need it then.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from flows.service.engines import BadRecordError, Engine, EngineSpec, Opened, open_engine
from infra.errors import UserError
from infra.extras import explained
from infra.settings import apply_defaults
from infra.uses import use

logger = logging.getLogger("yiwen.service")


@dataclass(frozen=True)
class Failure:
    """Why an item has no answer."""

    is_users: bool
    """True if the item is at fault."""
    message: str


Outcome = bytes | Failure
"""An answer as JSON, or why there is none."""


Report = Callable[[Outcome], None]
"""Called with one outcome after the other, in the thread of the event loop."""


class WorkerLostError(Exception):
    """The worker's process ended, or was ended, before it answered."""


class Worker(Protocol):
    """What a lane needs of a worker."""

    one_by_one: bool
    """True if each outcome is reported before the next item is looked at. Known after the start."""

    @property
    def is_alive(self) -> bool:
        """False once the process has ended."""

    async def start(self) -> Opened:
        """Open the engine. Raises `UserError` if that is impossible."""

    async def answers(self, items: Sequence[Any], report: Report) -> None:
        """Report the outcome of each item, in order. Raises `WorkerLostError` when the process ends before that."""

    def kill(self) -> None:
        """End the process now. `start` makes a new one."""

    def close(self) -> None:
        """End everything."""


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, spec: EngineSpec, opener: Callable[[EngineSpec], Engine] = open_engine) -> None:
        """Take what to open. `opener` is a function of a module; it runs in the process."""
        self.spec = spec
        self._opener = opener
        self.one_by_one = False
        self._process: multiprocessing.process.BaseProcess | None = None
        self._is_closed = False
        self._pipe: Connection | None = None
        # One thread that waits for the pipe: the event loop never does.
        self._waiting = ThreadPoolExecutor(1, thread_name_prefix=f"wait-{spec.name}")

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int | None:
        """Number of the process; None before it was started."""
        return None if self._process is None else self._process.pid

    async def start(self) -> Opened:
        self.kill()
        # A thread that still waits for the old pipe sees its end at once.
        answer = await asyncio.get_running_loop().run_in_executor(self._waiting, self._start)
        if isinstance(answer, Failure):
            self.kill()
            raise UserError(answer.message)
        opened, self.one_by_one = answer
        return opened

    def _start(self) -> tuple[Opened, bool] | Failure:
        if self._process is not None:
            self._process.join(5)
        if self._is_closed:
            return Failure(False, f"{self.spec.name}: the service ends.")
        if self.spec.folder is not None:
            use(self.spec.folder)  # by this process: a worker that is restarted opens the folder again
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(theirs, self.spec, self._opener), name=self.spec.name, daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            opened: tuple[Opened, bool] | Failure = self._pipe.recv()
        except (EOFError, OSError):
            where = self.spec.folder or "its files"
            return Failure(False, f"{self.spec.name}: its process ended while it opened {where}.")
        return opened

    async def answers(self, items: Sequence[Any], report: Report) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._waiting, self._ask, list(items), functools.partial(_soon, loop, report))

    def _ask(self, items: list[Any], report: Report) -> None:
        if self._pipe is None:
            raise WorkerLostError
        try:
            self._pipe.send(items)
            for _ in items:
                report(self._pipe.recv())
        except (EOFError, OSError) as error:
            raise WorkerLostError from error

    def kill(self) -> None:
        if self._process is not None and self._process.pid is not None:  # None: it could not be started
            self._process.kill()

    def close(self) -> None:
        """End the process and the thread, and wait for the process."""
        self._is_closed = True
        self.kill()
        self._waiting.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.join(2)


def _soon(loop: asyncio.AbstractEventLoop, report: Report, outcome: Outcome) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(report, outcome)


def work(pipe: Connection, spec: EngineSpec, opener: Callable[[EngineSpec], Engine]) -> None:
    """Open the engine, then answer batches until the pipe ends: the program of a worker."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    apply_defaults()
    try:
        engine = opener(spec)
    except UserError as error:
        pipe.send(Failure(True, str(error)))
        return
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        pipe.send(Failure(True, str(missing)))
        return
    try:
        pipe.send((engine.opened, engine.one_by_one))
        while True:
            for outcome in outcomes_of(engine, pipe.recv()):
                pipe.send(outcome)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the service ended; exit handlers of libraries may wait for each other


def outcomes_of(engine: Engine, items: Sequence[Any]) -> Iterator[Outcome]:
    """Yield the outcome of each item, in order; an item that fails does not spoil the others."""
    done = 0
    while done < len(items):
        left = items[done:]
        try:
            for answer in engine.answers(left):
                yield answer
                done += 1
        except Exception as error:
            if len(left) > 1 and not engine.one_by_one:
                for item in items[done:]:  # those before it have their answers
                    yield from outcomes_of(engine, [item])
                return
            if not isinstance(error, BadRecordError):
                logger.error("%s", place_of(error))
            message = str(error) if isinstance(error, BadRecordError) else f"the engine failed ({type(error).__name__})"
            yield Failure(isinstance(error, BadRecordError), message)
            done += 1


def place_of(error: BaseException) -> str:
    """Return the type of an error and the lines of code it passed, without its message: that may quote a text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{os.path.basename(one.filename)}:{one.lineno} {one.name}" for one in reversed(frames[-6:]))
    return f"{type(error).__name__} at {places}"
