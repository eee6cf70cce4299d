"""The folder of a trial: its result, and its weights if it may be the best.

model/         the weights that were best on dev
result.json    written last; a folder without it belongs to an unfinished trial
checkpoint.pt  only until then: the last whole epoch, from which a killed trial resumes (checkpoint.py)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import fsspec
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from infra.artifacts import make_folder
from tasks.finetune.trials.trial import Trial, Work

RESULT = "result.json"
MODEL = "model"
DIVERGED = "diverged"
"""`TrialResult.stopped` of a trial whose loss became NaN or infinite."""


class DevScore(BaseModel):
    """A point of the dev curve."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: int
    epoch: float
    score: float
    train_loss: float


class TrialResult(BaseModel):
    """Content of `result.json`."""

    model_config = ConfigDict(ser_json_inf_nan="constants")  # a pair score may be infinite

    trial: SerializeAsAny[Trial]
    stopped: str
    """Why it ended: `finished`, `patience`, or `diverged`, which leaves no model."""
    score: float = 0.0
    """Score of the best epoch on dev, by the task's metric."""
    epoch: float = 0.0
    """Epochs done when it was best."""
    dev: dict[str, float] = {}
    """All metrics on dev."""
    test: dict[str, float] = {}
    """All metrics on test, which choose nothing; empty if the answers are not known."""
    curve: list[DevScore] = []
    seconds: float = 0.0
    """Time of training alone."""
    sequences_per_second: float = 0.0
    counters: dict[str, int] = {}
    """Counts of what features had to leave out, over everything the trial read."""
    extra: dict[str, Any] = Field(default={}, exclude_if=lambda value: not value)
    """Results that only one kind of trial has, by name, as plain JSON values."""

    @model_validator(mode="before")
    @classmethod
    def _gather_extra(cls, content: Any) -> Any:
        """Move unknown top-level results into `extra`, so that trials finished before November 2026 are reused."""
        if not isinstance(content, dict):
            return content
        # {"score": 0.8, "decision": {…}} becomes {"score": 0.8, "extra": {"decision": {…}}}
        unknown = {name: value for name, value in content.items() if name not in cls.model_fields}
        known = {name: value for name, value in content.items() if name in cls.model_fields}
        return known | ({"extra": {**unknown, **known.get("extra", {})}} if unknown else {})


def read_result(trial: Trial) -> TrialResult | None:
    """Return the result of a trial; None if it is unfinished, or if another trial or other data left the result."""
    filesystem, path = fsspec.core.url_to_fs(f"{trial.folder}/{RESULT}")
    try:
        content = json.loads(filesystem.cat_file(path))
        own = type(trial).model_validate(content["trial"])
        # A trial on other data has the same name, but another identity. The storage may have moved.
        return TrialResult.model_validate(content | {"trial": trial}) if own.identity == trial.identity else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError):  # half-written when the trial was killed
        return None


def drop_model(trial: Trial) -> None:
    """Delete a trial's weights and keep its result."""
    filesystem, path = fsspec.core.url_to_fs(f"{trial.folder}/{MODEL}")
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)


def fetch_model(trial: Trial, target: Path) -> None:
    """Copy a trial's `model/` into a local folder."""
    filesystem, path = fsspec.core.url_to_fs(f"{trial.folder}/{MODEL}")
    filesystem.get(path, str(target), recursive=True)


def store_result(result: TrialResult, work: Work | None = None) -> TrialResult:
    """Write the trial's folder anew, without its checkpoint and with the result last."""
    filesystem, path = fsspec.core.url_to_fs(result.trial.folder)
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)
    make_folder(filesystem, path)
    if work is not None:
        with tempfile.TemporaryDirectory(prefix="yiwen-trial-") as name:
            work.save(Path(name))
            filesystem.put(name, f"{path}/{MODEL}", recursive=True)
    filesystem.pipe_file(f"{path}/{RESULT}", result.model_dump_json(indent=1).encode())
    return result
