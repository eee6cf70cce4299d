"""Figures of stages and trainings for Prometheus: `YIWEN_METRICS=FOLDER`.

Each flow writes a file `yiwen_<flow>.prom` there, and each kind of training one of its own. node_exporter's textfile
collector (`--collector.textfile.directory=FOLDER`) publishes them: nothing of ours listens, and the figures of a flow
of minutes outlive it. A file appears whole, at most once in `SECONDS_BETWEEN_WRITES` while nothing ends; the next run
of the flow replaces it. A folder that cannot be written is a warning and stops no run.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from infra.console.progress import BestEffort

if TYPE_CHECKING:
    from infra.artifacts import Manifest

VARIABLE = "YIWEN_METRICS"
"""`YIWEN_METRICS`: folder for figures of runs in Prometheus's text format; default none."""
SECONDS_BETWEEN_WRITES = 5.0
STATES = ("running", "finished", "reused", "failed")

# matches the / of "corpus/refresh"
# not: "kg_embeddings"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def metrics_folder() -> Path | None:
    """Return the folder for figures, if there is to be one."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else None


class _MetricsFile:
    """A registry of gauges and the file that shows it."""

    def __init__(self, folder: Path, name: str) -> None:
        from prometheus_client import CollectorRegistry, Gauge

        self.registry = CollectorRegistry()
        self._file = folder / f"yiwen_{_NOT_IN_NAMES.sub('_', name)}.prom"
        self._gauge = Gauge
        self._written = -SECONDS_BETWEEN_WRITES
        self._best_effort = BestEffort(f"{VARIABLE}: {self._file}")

    def gauge(self, name: str, about: str, *labels: str):  # type: ignore[no-untyped-def]
        """Return a new gauge of this file."""
        return self._gauge(name, about, labels, registry=self.registry)

    def write(self, now: bool) -> None:
        """Write the file; unless it is to be `now`, only some seconds after the last time."""
        from prometheus_client import write_to_textfile

        if now or time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self._written = time.monotonic()
            with self._best_effort:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_to_textfile(str(self._file), self.registry)
                self._file.chmod(0o644)  # the collector is another user; there are no texts in it


class FlowMetrics:
    """Figures of the stages of one flow."""

    def __init__(self, folder: Path, flow: str) -> None:
        self._flow = flow
        self._out = _MetricsFile(folder, flow)
        self.registry = self._out.registry
        gauge, one = self._out.gauge, ("flow", "stage")
        self._state = gauge("yiwen_stage_state", "1 for the state that the stage is in.", *one, "state")
        self._done = gauge("yiwen_stage_units_done", "Units of work done: parts, steps, …", *one)
        self._units = gauge("yiwen_stage_units", "Units of work in all.", *one)
        self._seconds = gauge("yiwen_stage_seconds", "Time that the stage took when it was computed.", *one)
        self._cpu = gauge("yiwen_stage_cpu_seconds", "Processor time of all its processes.", *one)
        self._memory = gauge("yiwen_stage_peak_memory_bytes", "Most memory of any of its processes.", *one)
        self._bytes = gauge("yiwen_stage_bytes", "Size of its artifact.", *one)
        self._rows = gauge("yiwen_stage_rows", "Rows of its tables.", *one, "table")
        self._changed = gauge("yiwen_flow_changed_timestamp_seconds", "When a stage last began or ended.", "flow")

    def begin(self, stage: str) -> None:
        """Note that a stage begins."""
        self._enter(stage, "running")

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note how far a stage is, or the one that it runs."""
        self._done.labels(self._flow, stage).set(done)
        self._units.labels(self._flow, stage).set(total)
        self._out.write(now=False)

    def end(self, stage: str, manifest: Manifest, reused: bool) -> None:
        """Note what a stage made, or found."""
        labels = self._flow, stage
        self._seconds.labels(*labels).set(manifest.wall_seconds)
        self._cpu.labels(*labels).set(manifest.cpu_seconds)
        self._memory.labels(*labels).set(manifest.peak_memory_bytes)
        self._bytes.labels(*labels).set(manifest.bytes)
        for name, table in manifest.tables.items():
            self._rows.labels(*labels, name).set(table.rows)
        self._enter(stage, "reused" if reused else "finished")

    def fail(self, stage: str) -> None:
        """Note that a stage ended with an error, or was interrupted."""
        self._enter(stage, "failed")

    def _enter(self, stage: str, state: str) -> None:
        for one in STATES:
            self._state.labels(self._flow, stage, one).set(one == state)
        self._changed.labels(self._flow).set_to_current_time()
        self._out.write(now=True)


class TrainingMetrics:
    """Figures of the newest training of one kind."""

    def __init__(self, folder: Path, kind: str, run: str) -> None:
        self._labels = kind, run
        self._out = _MetricsFile(folder, f"training_{kind}")
        self.registry = self._out.registry
        one = ("kind", "run", "split")
        self._step = self._out.gauge("yiwen_training_step", "Last step that was reported.", *one)
        self._figure = self._out.gauge("yiwen_training_figure", "Its figures, such as the loss.", *one, "figure")

    def log(self, split: str, step: int, figures: Mapping[str, float]) -> None:
        """Note a report of the training."""
        self._step.labels(*self._labels, split).set(step)
        for name, value in figures.items():
            self._figure.labels(*self._labels, split, name).set(value)
        self._out.write(now=False)

    def close(self) -> None:
        """Write the last figures."""
        self._out.write(now=True)
