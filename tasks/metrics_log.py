"""The curve of a run as it grows: one JSON line a report, on any filesystem, cut back when a run resumes; and the same
as TensorBoard events where they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import fsspec


class MetricsLog:
    """Appends figures of a run; made by the first worker.

    Entries after `resumed_step` belong to steps that a killed run took and that are taken again: they go.
    """

    def __init__(self, path: str, resumed_step: int) -> None:
        self._filesystem, self._path = fsspec.core.url_to_fs(path)
        kept = [entry for entry in read_metrics(path) if entry["step"] <= resumed_step]
        self._filesystem.makedirs(self._filesystem._parent(self._path), exist_ok=True)
        with self._filesystem.open(self._path, "wb") as file:
            for entry in kept:
                file.write(_line(entry))

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report."""
        with self._filesystem.open(self._path, "ab") as file:
            file.write(_line({"step": step, "split": split, "figures": dict(figures)}))


class TensorBoardLog:
    """The same reports as TensorBoard events in `<storage>/tensorboard`, a local or mounted folder."""

    FOLDER = "tensorboard"

    def __init__(self, storage: str, resumed_step: int) -> None:
        from tensorboardX import SummaryWriter

        # What a killed run wrote of later steps, TensorBoard hides.
        self._writer = SummaryWriter(logdir=f"{storage}/{self.FOLDER}", purge_step=resumed_step + 1)

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report."""
        for name, value in figures.items():
            self._writer.add_scalar(f"{split}/{name}", value, step)
        self._writer.flush()


def read_metrics(path: str) -> list[dict[str, Any]]:
    """The reports so far, each with step, split and figures; a line that is still being written is left out."""
    filesystem, place = fsspec.core.url_to_fs(path)
    try:
        lines = filesystem.cat_file(place).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line]


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
