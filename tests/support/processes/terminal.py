"""A run in a terminal of its own: a process group in the foreground of a pseudo-terminal, as in a shell."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from infra.console.interruption import RUN_VARIABLE
from infra.settings import REPOSITORY

CTRL_C = b"\x03"

SECONDS_TO_END = 30.0
"""Most time from a signal to the end: ten times that of the product, as tests run on busy machines."""


class TerminalRun:
    """A Python process in a terminal; what it shows is collected. Use as a context manager, which kills it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._shown = bytearray()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> TerminalRun:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for process in self.processes():
            process.kill()
        self._reader.join(10)
        os.close(self._master)

    @property
    def shown(self) -> str:
        """What the terminal has shown."""
        return self._shown.decode("utf-8", "replace")

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody writes to the terminal any more
            while piece := os.read(self._master, 65536):
                self._shown += piece

    def lines(self) -> list[str]:
        """Return what the terminal has shown, line by line, without what a bar has drawn over."""
        return [line.rpartition("\r")[2] for line in self.shown.replace("\r\n", "\n").splitlines()]

    def press(self, keys: bytes) -> None:
        """Type keys."""
        os.write(self._master, keys)

    def wait_until(self, condition: Callable[[], object], seconds: float = 240) -> None:
        """Wait for something that the run does, while it runs."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"the run ended before:\n{self.shown}"
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.1)  # a look at all processes takes the time that the run needs

    def wait_for_end(self) -> None:
        """Wait until the run ends, which it does within `SECONDS_TO_END`, and for what it wrote last."""
        self.process.wait(SECONDS_TO_END)
        time.sleep(0.2)

    def processes(self) -> list[psutil.Process]:
        """Living processes that the run has started, known by their parents or by the mark that they inherit."""
        mark = f"{self.process.pid}."
        running = list(psutil.process_iter(["ppid", "status"]))
        parents = {process.pid: process.info["ppid"] for process in running}
        found = []
        for process in running:
            ancestor = parents[process.pid]
            while ancestor and ancestor != self.process.pid:
                ancestor = parents.get(ancestor)
            try:
                is_ours = ancestor or process.environ().get(RUN_VARIABLE, "").startswith(mark)
            except psutil.Error:
                continue
            if is_ours and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def command_lines(self) -> list[str]:
        """Commands of these processes."""
        lines = []
        for process in self.processes():
            try:
                lines.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return lines


def wait_until_gone(processes: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return which of some processes still live after so many seconds; zombies do not."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def files_below(folder: Path, ending: str) -> list[Path]:
    """Return files of a store that a run works on: folders may vanish meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(ending)]
