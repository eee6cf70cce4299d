"""Following a training run from outside: its metrics file becomes progress and a note."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from infra.only_shown import OnlyShown
from infra.stage import ProgressListener
from tasks.training.metrics_text import MetricsText
from tasks.training.run_spec import RunSpec

SECONDS_BETWEEN_LOOKS = 1.0


class RunFollower:
    """Reads what a run's metrics file gained since the last look, and reports it."""

    def __init__(self, spec: RunSpec, on_progress: ProgressListener) -> None:
        self._spec = spec
        self._on_progress = on_progress
        self._text = MetricsText(spec.metrics_path)
        self._offset = 0
        self._line = b""
        """The last line that was read; it begins at the offset for as long as the file only grows."""
        self._first: tuple[float, int] | None = None
        self._last = 0
        self._only_shown = OnlyShown(f"The progress of run {spec.name}")

    def until(self, finished: Callable[[], bool]) -> None:
        """Look every second until `finished()`, and once more."""
        while not finished():
            self.look()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self.look()

    def look(self) -> None:
        """Report the last training entry, if there is a new one. What cannot be read or reported now is at the next
        look: a run does not end because nobody could watch it.
        """
        with self._only_shown:
            self._report_news()

    def _report_news(self) -> None:
        entries = [entry for entry in self._new_entries() if entry["split"] == "train"]
        if entries:
            step = entries[-1]["step"]
            notes = [*self._time_left(step), _note(entries[-1]["figures"])]
            self._on_progress("train", step, self._spec.config.steps, ", ".join(notes))

    def _time_left(self, step: int) -> list[str]:
        """From the steps that were taken since the first look that saw one, or since the run went back."""
        now = time.monotonic()
        went_back, self._last = step <= self._last, step
        if self._first is None or went_back:
            self._first = (now, step)
            return []
        began, first = self._first
        return [f"{duration((now - began) / (step - first) * (self._spec.config.steps - step))} left"]

    def _new_entries(self) -> list[dict]:
        data = self._text.read(self._offset)
        if not data.startswith(self._line):  # a restarted worker cut the file back to its checkpoint
            self._offset, self._line = 0, b""
            data = self._text.read()
        complete = data[len(self._line) : data.rfind(b"\n") + 1]
        if complete:
            self._offset += len(self._line) + complete.rfind(b"\n", 0, -1) + 1
            self._line = complete[complete.rfind(b"\n", 0, -1) + 1 :]
        return [json.loads(line) for line in complete.splitlines()]


def duration(seconds: float) -> str:
    """A time span as a person says it: `50 s`, `12 min`, `3 h 05 min`, `6 d 4 h`."""
    minutes, hours, days = round(seconds / 60), round(seconds // 3600), round(seconds // 86_400)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24} h"


def _note(figures: dict[str, float]) -> str:
    losses = [f"{name} {figures[name]:.3g}" for name in ("loss", "mlm", "rtd", "mts", "csp") if name in figures]
    return ", ".join([f"{figures['tokens_per_second']:,.0f} tokens/s", *losses])
