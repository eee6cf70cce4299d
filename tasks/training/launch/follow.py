"""Following long work from outside: what its metrics file gains becomes progress, with a note and the time left."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from infra.console.progress import BestEffort
from infra.stage import ProgressListener
from tasks.training.launch.work import LongWork
from tasks.training.metrics_log import MetricsText

SECONDS_BETWEEN_LOOKS = 1.0


@contextlib.contextmanager
def followed(work: LongWork, on_progress: ProgressListener) -> Iterator[None]:
    """Report the progress of work that this process does in the block."""
    with watching(RunFollower(work, on_progress)):
        yield


@contextlib.contextmanager
def watching(follower: RunFollower) -> Iterator[None]:
    """Have a thread look every second while the block runs, and once more."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(SECONDS_BETWEEN_LOOKS):
            follower.look()
        follower.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


class RunFollower:
    """Reads what the metrics file of some work gained since the last look, and reports it."""

    def __init__(self, work: LongWork, on_progress: ProgressListener) -> None:
        self._work = work
        self._on_progress = on_progress
        self._text = MetricsText(work.metrics_path)
        self._offset = 0
        self._line = b""
        """The last line that was read. It begins at the offset as long as the file only grows."""
        self._first: tuple[float, int] | None = None
        self._last = 0
        self._best_effort = BestEffort(f"The progress of run {work.name}")

    def until(self, finished: Callable[[], bool]) -> None:
        """Look every second until `finished()`, and once more."""
        while not finished():
            self.look()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self.look()

    def look(self) -> None:
        """Report the progress that new entries show, if any.

        Failures are logged and never raised, since work must not end because nobody can watch it. What could not be
        read is read at the next look.
        """
        with self._best_effort:
            self._report_news()

    def _report_news(self) -> None:
        progress = self._work.progress(self._new_entries())
        if progress is not None:
            notes = [*self._time_left(progress.done), progress.note]
            self._on_progress(self._work.kind, progress.done, self._work.total, ", ".join(notes))

    def _time_left(self, done: int) -> list[str]:
        """Estimate from the units since the first look that saw one, or since the work went back to a checkpoint."""
        now = time.monotonic()
        went_back, self._last = done < self._last, done
        if self._first is None or went_back:
            self._first = (now, done)
            return []
        began, first = self._first
        if done == first:  # the same epoch's figures on held-out triples, for instance
            return []
        return [f"{rough_duration((now - began) / (done - first) * (self._work.total - done))} left"]

    def _new_entries(self) -> list[dict[str, Any]]:
        data = self._text.read(self._offset)
        if not data.startswith(self._line):  # a restarted worker cut the file back to its checkpoint
            self._offset, self._line = 0, b""
            data = self._text.read()
        complete = data[len(self._line) : data.rfind(b"\n") + 1]
        if complete:
            self._offset += len(self._line) + complete.rfind(b"\n", 0, -1) + 1
            self._line = complete[complete.rfind(b"\n", 0, -1) + 1 :]
        return [json.loads(line) for line in complete.splitlines()]


def rough_duration(seconds: float) -> str:
    """Return a time span as people write it: `50 s`, `12 min`, `3 h 05 min`, `6 d 4 h`."""
    minutes, hours, days = round(seconds / 60), round(seconds // 3600), round(seconds // 86_400)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24} h"
