"""The metrics file of a run: its curves as they grow, one JSON line per report, on any filesystem.

`MetricsLog` appends to it and, when a run resumes, cuts it back to the checkpoint. `read_metrics` and `read_steps` read
it while it grows. `TensorBoardLog` writes the same reports as TensorBoard events.

Single steps (split "step") wait for the next report and are stored in its line, as one list per figure. A run of a
million steps has some ten thousand lines, not a million.

    {"step": 40, "split": "train", "figures": {"loss": 61.2, …}, "steps": {"step": [21, …, 40], "loss": [63.1, …]}}

What was written before a kill or a full disk is kept, at whatever moment it comes. A local file is appended to and cut
in place. Object stores cannot append: there the text is stored in parts, metrics.jsonl, metrics-000001.jsonl, …. The
last part is rewritten for every line, atomically, until it is long enough.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.artifacts import make_folder
from infra.builds import explained

STEP = "step"
"""Split of single steps."""

PART_BYTES = 1 << 18
"""Length at which a part is complete. It balances the cost of writing a line against the number of parts to read."""


class MetricsLog:
    """Appends figures of a run; only the first worker has one.

    Entries after `resumed_step` are removed, because a killed run took these steps and they are taken again. So is a
    half-written line. Earlier entries are kept, whatever happens.

    Raises:
        StorageFullError, UserError: as `infra.builds.explained` says.
    """

    def __init__(self, path: str, resumed_step: int) -> None:
        self._text = MetricsText(path)
        self._steps: list[tuple[int, dict[str, float]]] = []
        # Steps ascend in the file, so what is kept is its beginning, and cutting loses nothing at a kill.
        earlier = itertools.takewhile(lambda line: _step(line) <= resumed_step, _whole_lines(self._text.read()))
        self._text.cut(sum(len(line) + 1 for line in earlier))

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report. A single step is kept for the line of the next other report. Raises as `__init__` does."""
        if split == STEP:
            self._steps.append((step, dict(figures)))
            return
        entry = {"step": step, "split": split, "figures": dict(figures)}
        if self._steps:
            entry |= {"steps": _columns(self._steps)}
            self._steps = []
        self._text.append(json.dumps(entry).encode() + b"\n")


class TensorBoardLog:
    """Writes the same reports, without single steps, as TensorBoard events to `tensorboard/` in a mounted storage."""

    FOLDER = "tensorboard"

    def __init__(self, storage: str, resumed_step: int) -> None:
        from tensorboardX import SummaryWriter

        # TensorBoard hides what a killed run wrote about later steps.
        self._writer = SummaryWriter(logdir=f"{storage}/{self.FOLDER}", purge_step=resumed_step + 1)

    def __call__(self, step: int, split: str, figures: Mapping[str, float]) -> None:
        """Append one report."""
        if split == STEP:
            return
        for name, value in figures.items():
            self._writer.add_scalar(f"{split}/{name}", value, step)
        self._writer.flush()


def read_metrics(path: str) -> list[dict[str, Any]]:
    """Return the reports so far, each with step, split and figures.

    A line that is still being written is left out, and so are single steps (`read_steps`).
    """
    keys = ("step", "split", "figures")
    return [{key: entry[key] for key in keys} for entry in map(json.loads, _whole_lines(MetricsText(path).read()))]


def read_steps(path: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each single step so far with its figures, in order; one line of the file at a time is parsed."""
    for line in _whole_lines(MetricsText(path).read()):
        columns = json.loads(line).get("steps")
        if columns is not None:
            # {"step": [21, 22], "loss": [63.1, 62.8]}: a list per figure, as long as the list of steps
            numbers = columns.pop("step")
            for place, step in enumerate(numbers):
                yield step, {name: values[place] for name, values in columns.items() if values[place] is not None}


def _whole_lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")[:-1]


def _step(line: bytes) -> float:
    """Return the step of an entry, or infinity for a damaged one, which can only be the last."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return math.inf


def _columns(steps: list[tuple[int, dict[str, float]]]) -> dict[str, list[float | None]]:
    """Return figures by name, to the seven digits of float32; None where a step lacks one that another task has."""
    names = dict.fromkeys(name for _, figures in steps for name in figures)
    columns: dict[str, list[float | None]] = {STEP: [step for step, _ in steps]}
    return columns | {
        name: [float(f"{figures[name]:.7g}") if name in figures else None for _, figures in steps] for name in names
    }


class _Part(NamedTuple):
    number: int
    name: str
    size: int


class MetricsText:
    """The bytes of a metrics file, wherever its parts are. Memory grows with what is read, or with one part."""

    def __init__(self, path: str) -> None:
        """`path`: local path or URI of the file, or of its first part."""
        self._filesystem, self._path = fsspec.core.url_to_fs(path)
        self._is_local = isinstance(self._filesystem, LocalFileSystem)
        self._folder, name = posixpath.split(self._path)
        self._stem, self._suffix = posixpath.splitext(name)
        self._growing = (0, b"")
        """Number and text of the last part, in a store that cannot append."""

    def read(self, start: int = 0) -> bytes:
        """Return the text from byte `start` to the end; empty if there is no such byte or no file."""
        pieces = []
        for part in self._parts():
            if start < part.size:
                pieces.append(self._filesystem.cat_file(part.name, start=start))
            start = max(0, start - part.size)
        return b"".join(pieces)

    def cut(self, length: int) -> None:
        """Keep only the first `length` bytes. Call it before `append`.

        Raises:
            StorageFullError, UserError: as `infra.builds.explained` says.
        """
        with explained(self._path):
            make_folder(self._filesystem, self._folder)
            parts = self._parts()
            while parts and sum(part.size for part in parts) > length:
                self._shorten(
                    parts.pop(), length - sum(part.size for part in parts)
                )  # the last first, so that a kill leaves no gap
        self._growing = (max((part.number + 1 for part in self._parts()), default=0), b"")

    def append(self, line: bytes) -> None:
        """Add `line` at the end. Raises as `cut` does."""
        number, text = self._growing
        with explained(self._path):
            if self._is_local:
                with open(self._path, "ab") as file:
                    file.write(line)
                return
            text += line
            self._filesystem.pipe_file(self._name(number), text)
        self._growing = (number, text) if len(text) < PART_BYTES else (number + 1, b"")

    def _shorten(self, part: _Part, length: int) -> None:
        if self._is_local:
            os.truncate(part.name, max(0, length))
        elif length > 0:
            self._filesystem.pipe_file(part.name, self._filesystem.cat_file(part.name, end=length))
        else:
            self._filesystem.rm_file(part.name)

    def _parts(self) -> list[_Part]:
        if not self._is_local:
            self._filesystem.invalidate_cache(self._folder)
        try:
            found = self._filesystem.ls(self._path if self._is_local else self._folder, detail=True)
        except FileNotFoundError:
            return []
        # metrics.jsonl and metrics-000012.jsonl, but not metrics-old.jsonl
        later = re.compile(rf"{re.escape(self._stem)}(?:-(\d+))?{re.escape(self._suffix)}")
        matches = [(later.fullmatch(posixpath.basename(one["name"])), one) for one in found]
        return sorted(_Part(int(match[1] or 0), one["name"], one["size"]) for match, one in matches if match)

    def _name(self, number: int) -> str:
        return posixpath.join(self._folder, f"{self._stem}-{number:06d}{self._suffix}") if number else self._path
