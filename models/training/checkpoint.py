"""Checkpoints: everything that a run needs to resume as if it had never stopped, in one file of plain tensors.

Masks, dropout, samples, the order of the data and the learning rate are functions of seed, step and position, so a
checkpoint holds no generator and no scheduler. It holds whole tensors even if the model was sharded, so it can be read
without a process group and resumed with any number of workers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.training.config import CHECKPOINT_FILE, COSTS
from models.training.parallel import sharded_like, whole
from models.training.streams import Description, check_streams

FORMAT = 2
"""Version of the format, raised whenever the meaning of a checkpoint changes."""
_KEYS = ("format", "step", "positions", "streams", "identity", "model", "optimizer", "skipped", "held_out", "window")


@dataclass
class Progress:
    """Progress of a run."""

    step: int = 0
    """Steps done, skipped ones included."""
    positions: dict[str, int] = field(default_factory=dict)
    """By task, the sample of its stream at which its next batch begins; 0 for a task that is missing."""
    held_out: dict[str, float] = field(default_factory=dict)
    """Latest figures on held-out text; empty before the first evaluation."""
    skipped: dict[str, dict[str, Any]] = field(default_factory=dict)
    """State of each task's `SpikeGuard`."""
    window: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """Figures of the steps since the last entry of the curves."""
    cpu_seconds: float = 0.0
    """CPU seconds of all steps on all workers, without evaluation and saving."""
    flops: float = 0.0
    """Model FLOPs of all steps on all workers."""


def snapshot(
    objective: Any, optimizer: torch.optim.Optimizer, progress: Progress, streams: Description, *, keep: bool
) -> dict[str, Any] | None:
    """Return the state of a run as CPU tensors that later steps do not change, so that it can be written meanwhile.

    Every worker must call it: sharded tensors are gathered, one at a time. It returns None unless `keep`. Memory: a
    copy of the weights and both moments, 12 bytes per parameter.
    """
    model = {name: _copy(value, keep) for name, value in objective.state_dict().items()}
    moments = optimizer.state_dict()
    moments["state"] = {
        index: {name: _copy(value, keep) if isinstance(value, Tensor) else value for name, value in state.items()}
        for index, state in moments["state"].items()
    }
    if not keep:
        return None
    return {
        "format": FORMAT,
        "step": progress.step,
        "positions": dict(progress.positions),
        "streams": streams,
        "identity": objective.identity(),
        "model": model,
        "optimizer": moments,
        "skipped": progress.skipped,
        "held_out": dict(progress.held_out),
        "window": progress.window,
        "cpu_seconds": progress.cpu_seconds,
        "flops": progress.flops,
    }


def restore(
    objective: Any, optimizer: torch.optim.Optimizer, state: Mapping[str, Any] | None, streams: Description
) -> Progress:
    """Load `state` into both and return its progress; None is the beginning. Every worker must call it.

    Raises:
        ValueError: the checkpoint belongs to another objective, preset or vocabulary, or to other rows than those of
            `streams`; the message names what differs.
    """
    if state is None:
        return Progress()
    check_identity(objective, state["identity"])
    if state["streams"]:  # checkpoints of format 1 say nothing of them
        check_streams(streams, state["streams"])
    own = objective.state_dict()
    _check_shapes(own, state["model"])
    objective.load_state_dict({name: sharded_like(value, own[name]) for name, value in state["model"].items()})
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    moments = {
        index: {
            # A copy: the optimiser would continue in the very tensors it is given, and change the caller's state.
            name: sharded_like(value.clone(), parameters[index]) if isinstance(value, Tensor) else value
            for name, value in kept.items()
        }
        for index, kept in state["optimizer"]["state"].items()
    }
    optimizer.load_state_dict({**state["optimizer"], "state": moments})
    return Progress(
        int(state["step"]),
        dict(state["positions"]),
        dict(state["held_out"]),
        dict(state["skipped"]),
        state["window"],
        *(float(state.get(name, 0.0)) for name in COSTS),
    )


def check_identity(objective: Any, saved: Mapping[str, Any]) -> None:
    """Compare the objective with the one that wrote a checkpoint.

    Raises:
        ValueError: they differ; the message names each setting and both values.
    """
    own = objective.identity()
    differing = [
        f"{name} is {saved[name]!r} there and {own[name]!r} here"
        for name in sorted(own.keys() & saved.keys())
        if own[name] != saved[name]
    ]
    if differing:
        raise ValueError(
            f"this checkpoint belongs to another model: {'; '.join(differing)}. Resume with the preset and the "
            "vocabulary that it was made with, or start over without it."
        )


def save_state(state: Mapping[str, Any], folder: Path) -> None:
    """Write a checkpoint into a folder. A failed write, such as on a full disk, leaves no partial checkpoint."""
    unfinished = folder / f"{CHECKPOINT_FILE}.unfinished"
    try:
        torch.save(dict(state), unfinished)
        os.replace(unfinished, folder / CHECKPOINT_FILE)
    finally:
        unfinished.unlink(missing_ok=True)


def load_state(folder: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; only tensors and plain values are allowed.

    Raises:
        ValueError: the file is damaged, is not our checkpoint, or is one of another version of this program.
    """
    path = folder / CHECKPOINT_FILE
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        version = state.get("format")
    except Exception as error:
        raise ValueError(f"{path} is not a readable checkpoint: {error}. Delete it to start over.") from error
    if version == 1:
        state = _of_one_stream(state)
        version = FORMAT
    missing = [key for key in _KEYS if key not in state]
    if version != FORMAT or missing:
        found = f"format {version}" if version != FORMAT else f"no {', '.join(missing)}"
        raise ValueError(
            f"{path} is not a readable checkpoint: it has {found}, this program reads format {FORMAT}. Resume with the "
            "version that wrote it, or delete it to start over."
        )
    return {key: state[key] for key in _KEYS} | {name: state.get(name, 0.0) for name in COSTS}  # not in older ones


def _of_one_stream(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint of format 1 as one of today's: its run had one task, named as its objective."""
    if not {"position", "identity", "skipped", "step"} <= state.keys():
        return dict(state)
    task = state["identity"].get("objective", "")
    guard = state["skipped"]
    if guard is not None:
        guard = {**guard, "own_steps": guard["steps"], "judged": state["step"]}
    newer = {"positions": {task: state["position"]}, "streams": {}, "skipped": {} if guard is None else {task: guard}}
    return {"window": [], **state, **newer, "format": FORMAT}


def _copy(tensor: Tensor, keep: bool) -> Tensor | None:
    full = whole(tensor.detach())  # on every worker: gathering is collective, even where the result is not kept
    return full.to("cpu", copy=True) if keep else None


def _check_shapes(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    differing = [
        f"{name} {_shape(saved.get(name))} there and {_shape(own.get(name))} here"
        for name in sorted(own.keys() | saved.keys())
        if _shape(own.get(name)) != _shape(saved.get(name))
    ]
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(f"this checkpoint does not fit the model: {'; '.join(differing[:3])}{more}")


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else " x ".join(map(str, tensor.shape)) or "a scalar"
