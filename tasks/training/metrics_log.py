"""The curve of a run as it grows: one JSON line a report, on any filesystem (tasks/training/metrics_text.py), cut back
when a run resumes; and the same as TensorBoard events where they are asked for.

Single steps (split "step") wait for the next report and stand in its line as a list for each figure, so that a run of a
million steps has some ten thousand lines, not a million.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.training.metrics_text import MetricsText

STEP = "step"
"""The split of single steps."""


class MetricsLog:
    """Appends figures of a run; made by the first worker.

    Entries after `resumed_step` belong to steps that a killed run took and that are taken again: they go, and so does a
    line that was half-written. Those before stay, whatever happens.

    Raises:
        StorageFullError, UserError: as `infra.builds.explained` says.
    """

    def __init__(self, path: str, resumed_step: int) -> None:
        self._text = MetricsText(path)
        self._steps: list[tuple[int, dict[str, float]]] = []
        earlier = itertools.takewhile(lambda line: _step(line) <= resumed_step, _whole_lines(self._text.read()))
        self._text.cut(sum(len(line) + 1 for line in earlier))

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report; one of a single step with the next that is not. Raises as `__init__` does."""
        if split == STEP:
            self._steps.append((step, dict(figures)))
            return
        entry = {"step": step, "split": split, "figures": dict(figures)}
        if self._steps:
            entry |= {"steps": _columns(self._steps)}
            self._steps = []
        self._text.append(json.dumps(entry).encode() + b"\n")


class TensorBoardLog:
    """The same reports but single steps as TensorBoard events in `<storage>/tensorboard`, a local or mounted folder."""

    FOLDER = "tensorboard"

    def __init__(self, storage: str, resumed_step: int) -> None:
        from tensorboardX import SummaryWriter

        # What a killed run wrote of later steps, TensorBoard hides.
        self._writer = SummaryWriter(logdir=f"{storage}/{self.FOLDER}", purge_step=resumed_step + 1)

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report."""
        if split == STEP:
            return
        for name, value in figures.items():
            self._writer.add_scalar(f"{split}/{name}", value, step)
        self._writer.flush()


def read_metrics(path: str) -> list[dict[str, Any]]:
    """The reports so far, each with step, split and figures; a line that is still being written is left out, and so
    are single steps (`read_steps`).
    """
    keys = ("step", "split", "figures")
    return [{key: entry[key] for key in keys} for entry in map(json.loads, _whole_lines(MetricsText(path).read()))]


def read_steps(path: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Each single step so far with its figures, in order; one line of the file at a time is taken apart."""
    for line in _whole_lines(MetricsText(path).read()):
        columns = json.loads(line).get("steps")
        if columns is not None:
            numbers = columns.pop("step")
            for place, step in enumerate(numbers):
                yield step, {name: values[place] for name, values in columns.items()}


def _whole_lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")[:-1]


def _step(line: bytes) -> float:
    """That of an entry; of a damaged one, which is at the end if anywhere, none that was taken."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf


def _columns(steps: list[tuple[int, dict[str, float]]]) -> dict[str, list[float]]:
    """Figures by name, to the seven digits that float32 has; NaN where a step has none."""
    names = dict.fromkeys(name for _, figures in steps for name in figures)
    columns: dict[str, list[float]] = {STEP: [step for step, _ in steps]}
    return columns | {name: [float(f"{figures.get(name, math.nan):.7g}") for _, figures in steps] for name in names}
