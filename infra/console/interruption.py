"""Interruption of a run: Ctrl-C, SIGTERM and SIGHUP end it within seconds, and nothing it started outlives it.

The first signal unwinds the run: blocks close what they opened, jobs on a cluster are cancelled, Prefect is notified.
The store needs none of it, as an interrupted run resumes like a killed one. So after `SECONDS_TO_UNWIND`, or at the
second signal, the process leaves at once, without the exit handlers of libraries: Prefect's waits minutes for its
server.

Python runs signal handlers between two of its own instructions, and a single call into compiled code may take minutes.
So a small process, the guard, keeps the time. It reads the signals from a pipe that the interpreter writes to at once,
whatever Python is doing. It also sees the run die, however that came about, and ends processes that are left of it:
they are known by an environment variable that they inherit.

A program that is not ours, such as a script that calls a flow, handles its own signals. `outlived_by_none` gives it a
guard that only sees it die.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from infra.place import IMPORTED_FROM

SECONDS_TO_UNWIND = 2.0
"""Time from the first signal until the process leaves, whatever it is doing."""

SECONDS_TO_LEAVE = 0.4
"""Time after that until the guard kills a process that cannot leave: compiled code holds Python's lock."""

SECONDS_FOR_CHILDREN = 1.0
"""Time for the processes of a run to end by themselves after it; then the guard kills them."""

SECONDS_OF_KILLING = 5.0
"""Time after which the guard gives up killing: a process that waits for a dead disk cannot be killed."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run."""

FAREWELL_SAID = b"\0"
"""What a run writes into the pipe of its signals when it has said farewell; no signal has the number 0."""

RUN_VARIABLE = "YIWEN_RUN"
"""Environment variable that marks the processes of a run."""


def run_interruptibly(action: Callable[[], int], farewell: str) -> NoReturn:
    """Run `action` and exit with its status, or when a signal comes, with `farewell` as the only line.

    Call it in the main thread, early: before other threads and before imports that take long.
    """
    run = _Run(farewell)
    run.start()
    try:
        status = action()
    except BaseException:  # after a signal it may be anything: an import that is cut short raises what it likes
        if run.signal:
            run.leave()
        run.is_over = True
        raise
    if run.signal:
        run.leave()
    run.is_over = True
    sys.exit(status)


def outlived_by_none(mark: str) -> None:
    """Start a process that waits until this one has ended, however that comes about, and ends what it has left.

    Args:
        mark: what processes to end have in their environment, as in `NAME=value`, beside the mark of this process's
            run. In a run of `run_interruptibly` nothing is started: its guard ends all of them.
    """
    if RUN_VARIABLE in os.environ:
        return
    own = dict(os.environ)
    os.environ[RUN_VARIABLE] = f"{os.getpid()}.{time.monotonic_ns()}"
    code = "import sys; from infra.console.interruption import wait_and_end; wait_and_end(*sys.argv[1:])"
    guard = subprocess.Popen(
        [sys.executable, "-c", code, f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}", mark],
        env=own | {"PYTHONPATH": str(IMPORTED_FROM)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    guard.returncode = 0  # it outlives this process on purpose, of which Python would warn
    _guards.append(guard)


_guards: list[subprocess.Popen[bytes]] = []
"""Guards of this process; their pipes close when it ends."""


def wait_and_end(*marks: str) -> None:
    """Wait for the end of standard input, then end the processes with all of these marks: a guard's program."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 64):
        pass
    _end_leftovers(*(mark.encode() for mark in marks))


class _Run:
    """This process as it is being interrupted."""

    def __init__(self, farewell: str) -> None:
        self.signal = 0
        """The first signal that came."""
        self.is_over = False
        """The action has returned; only the interpreter is ending."""
        self._farewell = f"{farewell}\n".encode()
        self._leaving = threading.Lock()
        self._signals = -1
        """Pipe to the guard, written to by the interpreter."""

    def start(self) -> None:
        """Fork the guard, and handle signals from now on."""
        os.environ[RUN_VARIABLE] = f"{os.getpid()}.{time.monotonic_ns()}"
        signals, signals_end = os.pipe()
        orders, orders_end = os.pipe()
        # Signals wait until the guard ignores them and we handle them: Ctrl-C reaches both, and may come right now.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                os.close(signals_end)
                os.close(orders)
                _guard(os.getppid(), signals, orders_end, self._farewell)
            os._exit(0)
        os.close(signals)
        os.close(orders_end)
        os.set_blocking(signals_end, False)
        self._signals = signals_end
        signal.set_wakeup_fd(signals_end, warn_on_full_buffer=False)
        threading.Thread(target=self._obey, args=(orders,), name="leave", daemon=True).start()
        for number in ENDING:
            # Under nohup, or in the background of a script, a signal is ignored: it stays so.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def leave(self) -> NoReturn:
        """End the process here and now."""
        if not self._leaving.acquire(blocking=False):
            time.sleep(60)  # another thread is leaving
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(Exception):  # the signal may have come in the middle of a print
                sys.stdout.flush()
        _say(self._farewell)
        with contextlib.suppress(OSError):  # a process with much memory may take longer to end than the guard waits
            os.write(self._signals, FAREWELL_SAID)
        os._exit(128 + (self.signal or signal.SIGINT))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal or self.is_over:
            self.signal = self.signal or number
            self.leave()
        self.signal = number
        # What breaks from now on breaks because of the signal: no warnings, no tracebacks of other threads.
        logging.disable(logging.CRITICAL)
        sys.unraisablehook = _ignore
        threading.excepthook = _ignore
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def _obey(self, orders: int) -> None:
        """Leave when the guard says so; in a thread, which runs while the main thread waits for compiled code."""
        number = os.read(orders, 1)
        if number:
            self.signal = self.signal or number[0]
            self.leave()


def say_below(text: str) -> None:
    """Write a line below the progress bar of a run that is being interrupted; nothing for an empty text."""
    if text:
        _say(f"{text}\n".encode())


def _ignore(error: object) -> None:
    """Report nothing."""


def _say(line: bytes) -> None:
    """Write a line below the progress bar of a terminal, past Python's buffers: one may be locked."""
    with contextlib.suppress(OSError):
        os.write(2, b"\n" + line if os.isatty(2) else line)


def _guard(parent: int, signals: int, orders: int, farewell: bytes) -> None:
    """Keep the time from the first signal, and clean up after the run. Runs in a process of its own."""
    os.setsid()  # out of the reach of Ctrl-C, and of whoever kills the run's whole process group
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # who reads the run's output must not wait for us
    first, leave_at, kill_at, was_said = 0, float("inf"), float("inf"), False
    while os.getppid() == parent:
        due = min(leave_at, kill_at) - time.monotonic()
        if select.select([signals], [], [], max(0.0, min(1.0, due)))[0]:
            came = os.read(signals, 64)
            if not came:
                break
            was_said = was_said or FAREWELL_SAID in came
            for byte in came:
                if byte in ENDING:
                    leave_at = time.monotonic() + (0.0 if first else SECONDS_TO_UNWIND)
                    first = first or byte
        now = time.monotonic()
        if now >= leave_at:
            with contextlib.suppress(OSError):
                os.write(orders, bytes([first]))
            leave_at, kill_at = float("inf"), min(kill_at, now + SECONDS_TO_LEAVE)
        if now >= kill_at and os.getppid() == parent:
            if not was_said:
                _say(farewell)
            os.kill(parent, signal.SIGKILL)
            break
    _end_leftovers(f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode())


def _end_leftovers(*marks: bytes) -> None:
    """Wait for the processes of a run to end, then kill those that are left."""
    began = time.monotonic()
    while (left := _marked(*marks)) and time.monotonic() - began < SECONDS_FOR_CHILDREN + SECONDS_OF_KILLING:
        if time.monotonic() - began >= SECONDS_FOR_CHILDREN:
            for process in left:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _marked(*marks: bytes) -> list[int]:
    """Return the processes of this user whose environment holds all marks; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if {*marks} <= {*(folder / "environ").read_bytes().split(b"\0")}:
                found.append(int(folder.name))
    return found
