"""Processes of the stack, known by id and time of start: an id alone may belong to another process by now."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

SECONDS_TO_END = 20.0
"""Time that a server has to end after it was asked to."""
SECONDS_FOR_THE_REST = 3.0
"""Time that the processes of a server have to end after it."""


@dataclass(frozen=True)
class Process:
    """One process, as long as it lives."""

    pid: int
    started: int
    """Start of the process in clock ticks since the machine's, field 22 of /proc/PID/stat."""

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, and its id is not another's."""
        fields = _fields(self.pid)
        return fields is not None and _start(fields) == self.started and fields[0] != "Z"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def process(pid: int) -> Process:
    """Return a running process; raises ProcessLookupError if there is none of this id."""
    fields = _fields(pid)
    if fields is None:
        raise ProcessLookupError(pid)
    return Process(pid, _start(fields))


def descendants(roots: Iterable[Process]) -> list[Process]:
    """Return the living processes below some, theirs included."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if (fields := _fields(int(entry.name))) is not None:
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root for root in roots if root.is_alive]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for pid in parents.get(one.pid, []):
            with contextlib.suppress(ProcessLookupError):
                waiting.append(process(pid))
    return found


def left_behind(leader: Process) -> list[Process]:
    """Return the living processes of the session that a process began, if it has died: its orphans.

    `ray start --block` that is killed leaves its servers; each service of the stack has a session of its own, whose
    number is the id of the process that began it. Processes older than that one are of another session of the number.
    """
    if leader.is_alive:
        return []
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _fields(int(entry.name))
        if fields is not None and int(fields[3]) == leader.pid and _start(fields) >= leader.started:
            found.append(Process(int(entry.name), _start(fields)))
    return [one for one in found if one.is_alive]


def end(roots: Iterable[Process], seconds: float = SECONDS_TO_END) -> None:
    """Ask processes to end, then those that they leave behind; kill what does not heed."""
    roots = list(roots)
    below = descendants(roots)
    for asked, patience in ((roots, seconds), (below, min(seconds, SECONDS_FOR_THE_REST))):
        for one in asked:
            one.signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        while any(one.is_alive for one in asked) and time.monotonic() < deadline:
            time.sleep(0.05)
    for one in {*below, *descendants(below)}:
        one.signal(signal.SIGKILL)


class ProcessFile:
    """The processes of a stack by the names of their services, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Process]:
        """Return all processes that were started, living or not."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {name: Process(**one) for name, one in content.items()}

    def write(self, processes: dict[str, Process]) -> None:
        """Replace the content, atomically."""
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({name: asdict(one) for name, one in processes.items()}), encoding="utf-8")
        beside.replace(self._path)


def _fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on: state, parent, …; the second, a name, may have spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _start(fields: list[str]) -> int:
    return int(fields[19])
