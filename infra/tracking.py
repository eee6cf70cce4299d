"""Curves and scores of trainings for programs that compare runs: MLflow and TensorBoard, as `YIWEN_TRACKING` says.

    YIWEN_TRACKING=mlflow               runs in <root>/.tracking/mlflow.db, or where MLFLOW_TRACKING_URI says
    YIWEN_TRACKING=mlflow,tensorboard   and events in <root>/.tracking/tensorboard/<run>/

A run has a key, the fingerprint of its work. Who begins the run with the same key continues it: figures that it has
are not written again. Nothing is sent anywhere unless MLFLOW_TRACKING_URI names a server; MLflow's telemetry is off.
A tracker that fails is a warning and never stops a training.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from infra.errors import UserError
from infra.run_metrics import TrainingMetrics, metrics_folder
from infra.settings import store_root

logger = logging.getLogger(__name__)

VARIABLE = "YIWEN_TRACKING"
"""Programs that trainings are recorded for: `mlflow`, `tensorboard`, or both with a comma; by default none."""
KEY, LAST = "yiwen.key", "yiwen.last_step"
"""Tags of a run of MLflow: its key, and the last step that was written of each split (`yiwen.last_step.train`)."""

FIGURES_AT_ONCE = 1_000
PARAMETERS_AT_ONCE = 100
"""Most of each that MLflow takes in one request."""
LONGEST_PARAMETER = 500
"""Characters of the longest value of a parameter that every server of MLflow takes."""

# Matches the * of "RTD*loss" and the colon of "D1: Acc"
# Not: "held_out/loss", "F1-macro"
_NOT_IN_NAMES = re.compile(r"[^\w\-./ ]")

Report = tuple[int, Mapping[str, float]]
"""A step, and its figures by name."""


class Tracker(Protocol):
    """Where the figures of one run go."""

    def log(self, split: str, reports: Sequence[Report]) -> None:
        """Write figures of a split, by ascending steps. Those up to the last step that the run has are left out."""

    def close(self, failed: bool) -> None:
        """End the run, which may be continued."""


def trackers() -> tuple[str, ...]:
    """Return the names of the programs that runs are written for; raises `UserError` for an unknown one."""
    names = tuple(name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    for name in names:
        if name not in _TRACKERS:
            raise UserError(f"{VARIABLE}={name!r} is unknown; give {' or '.join(_TRACKERS)}, or both with a comma.")
    return names


def is_tracked() -> bool:
    """Return whether the figures of trainings go anywhere; raises as `trackers` does."""
    return bool(trackers()) or metrics_folder() is not None


@contextlib.contextmanager
def tracked(experiment: str, name: str, key: str, parameters: Mapping[str, Any]) -> Iterator[list[Tracker]]:
    """Begin or continue a run in the block, and yield where its figures go; nowhere unless users ask for it.

    Args:
        experiment: group of runs that are compared, such as `train`.
        name: the run as people read it.
        key: fingerprint of its work.
        parameters: settings, by dotted name.

    Raises:
        UserError: the setting is unknown, the store is no local folder, or a package is missing.
    """
    opened: list[Tracker] = []
    for one in trackers():
        try:
            opened.append(_TRACKERS[one](experiment, name, key, parameters))
        except (UserError, ModuleNotFoundError):  # with a remedy; anything else is the tracker's own trouble
            raise
        except Exception as error:
            logger.warning("%s cannot record %s (%s: %s); the work continues", one, name, type(error).__name__, error)
    folder = metrics_folder()
    if folder is not None:
        opened.append(_PrometheusRun(folder, experiment, key))
    failed = True
    try:
        yield opened
        failed = False
    finally:
        for run in opened:
            with contextlib.suppress(Exception):
                run.close(failed)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted names: {"model": {"layers": 2}} is {"model.layers": 2}."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _local_folder() -> Path:
    root = store_root()
    if "://" in root:
        raise UserError(
            f"{VARIABLE} needs a folder on this machine, and YIWEN_HOME is {root}. Set MLFLOW_TRACKING_URI to a server "
            f"or to sqlite:///FILE, or unset {VARIABLE}."
        )
    folder = Path(root, ".tracking").absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


class _MlflowRun:
    """A run of MLflow; its client is imported when one is opened, which takes seconds."""

    def __init__(self, experiment: str, name: str, key: str, parameters: Mapping[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        from mlflow import MlflowClient
        from mlflow.entities import Param

        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{_local_folder() / 'mlflow.db'}"
        self._client = MlflowClient(address)
        found = self._client.get_experiment_by_name(experiment)
        group = found.experiment_id if found else self._client.create_experiment(experiment)
        runs = self._client.search_runs([group], f"tags.`{KEY}` = '{key}'", max_results=1)
        if runs:
            self._run = runs[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            self._last = {
                tag.removeprefix(f"{LAST}."): int(step)
                for tag, step in runs[0].data.tags.items()
                if tag.startswith(f"{LAST}.")
            }
            return
        self._run = self._client.create_run(group, run_name=name, tags={KEY: key}).info.run_id
        self._last = {}
        given = [Param(_name(one), str(value)[:LONGEST_PARAMETER]) for one, value in flat(parameters).items()]
        for start in range(0, len(given), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._run, params=given[start : start + PARAMETERS_AT_ONCE])

    def log(self, split: str, reports: Sequence[Report]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = [(step, figures) for step, figures in reports if step > self._last.get(split, -1)]
        metrics = [
            Metric(_name(f"{split}/{one}"), float(value), now, step)
            for step, figures in new
            for one, value in figures.items()
        ]
        for start in range(0, len(metrics), FIGURES_AT_ONCE):
            self._client.log_batch(self._run, metrics=metrics[start : start + FIGURES_AT_ONCE])
        if new:
            self._last[split] = max(step for step, _ in new)
            self._client.set_tag(self._run, f"{LAST}.{split}", str(self._last[split]))

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class _TensorBoardRun:
    """Events of TensorBoard; the last step is kept in a file beside them."""

    def __init__(self, experiment: str, name: str, key: str, parameters: Mapping[str, Any]) -> None:
        from tensorboardX import SummaryWriter

        folder = _local_folder() / "tensorboard" / experiment / _file_name(name)
        self._mark = folder / f"{key}.json"
        self._last: dict[str, int] = json.loads(self._mark.read_text()) if self._mark.is_file() else {}
        # Files are named after the second: those of two quick starts would be one.
        count = len(list(folder.glob("events.*")))
        self._writer = SummaryWriter(logdir=str(folder), filename_suffix=f".{count}")
        if not self._last:
            given = "\n".join(f"    {one} = {value}" for one, value in flat(parameters).items())
            self._writer.add_text("parameters", given)

    def log(self, split: str, reports: Sequence[Report]) -> None:
        for step, figures in reports:
            if step > self._last.get(split, -1):
                for one, value in figures.items():
                    self._writer.add_scalar(_name(f"{split}/{one}"), value, step)
                self._last[split] = step
        self._writer.flush()
        self._mark.write_text(json.dumps(self._last))

    def close(self, failed: bool) -> None:
        self._writer.close()


class _PrometheusRun:
    """Newest figures, in a file for Prometheus (infra/run_metrics.py)."""

    def __init__(self, folder: Path, experiment: str, key: str) -> None:
        self._metrics = TrainingMetrics(folder, experiment, key[:8])

    def log(self, split: str, reports: Sequence[Report]) -> None:
        for step, figures in reports:
            self._metrics.log(split, step, figures)

    def close(self, failed: bool) -> None:
        self._metrics.close()


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)


def _file_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text).replace("/", "_").strip(". ")


_Opener = Callable[[str, str, str, Mapping[str, Any]], Tracker]
_TRACKERS: Mapping[str, _Opener] = {"mlflow": _MlflowRun, "tensorboard": _TensorBoardRun}
