"""One trial of fine-tuning: one setting with one seed, from the encoder's folder to a model that predicts alone.

A kind of trial is a subclass of `Trial`: the records of a task (tasks/finetune/task_trial.py) or pairs for a ranker
(tasks/normalise/ranker_trial.py). A trial knows neither Ray nor the other trials. It leaves a folder of its own:

    model/         the weights that were best on dev
    result.json    written last; a folder without it belongs to an unfinished trial
    checkpoint.pt  only until then: the last whole epoch, from which a killed trial resumes (checkpoint.py)

Time grows with epochs x tokens of train. Memory grows with the model, of which training has three copies, and with the
training data.
"""

from __future__ import annotations

import functools
import json
import logging
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import fsspec
import torch
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from infra.errors import UserError
from models.finetuning import FinetuneConfig, finetune
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from tasks.finetune.checkpoint import load_checkpoint, save_checkpoint

logger = logging.getLogger(__name__)

RESULT = "result.json"
MODEL = "model"
DIVERGED = "diverged"

Listener = Callable[[float, float], None]
"""Receives the epochs done and the best dev score so far."""


class Trial(BaseModel, ABC):
    """One setting with one seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    section: ClassVar[str]
    """Section of the parameters where users set it, for messages."""

    task: str
    model: str
    """Folder of the encoder."""
    data: str
    """Folder or URI of its training data."""
    data_version: str
    """Fingerprint of the training data."""
    storage: str
    """Folder or URI in which each trial has a folder."""
    batch_size: int
    learning_rate: float
    epochs: int
    seed: int
    max_length: int | None = None
    options: dict[str, Any] = {}
    """Further fields of `FinetuneConfig`."""
    dropout: float | None = None
    """Rate of encoder and head; None: the encoder's own rates, and the head's default."""
    random_weights: bool = False
    """Train the encoder's architecture from fresh weights instead of its own."""
    threads: int | None = None
    """Threads of torch on the CPU; they change speed, and only the last bits of results."""
    gpu: bool = False
    """Like `threads`, set when the trial is placed (tasks/finetune/placement.py)."""

    @abstractmethod
    def prepare(self) -> Work:
        """Read and build what is trained.

        Raises:
            UserError: model, data or settings do not fit.
        """

    @property
    def setting(self) -> tuple[int, float, int]:
        """Batch size, learning rate and epochs; scores are averaged over its seeds."""
        return self.batch_size, self.learning_rate, self.epochs

    @property
    def name(self) -> str:
        """Name of its folder, such as `b32-lr0.0001-e4-s1`."""
        return f"b{self.batch_size}-lr{self.learning_rate:g}-e{self.epochs}-s{self.seed}"

    @property
    def identity(self) -> str:
        """Everything that changes its results; only checkpoints and results with the same identity are its own."""
        return self.model_dump_json(exclude={"storage", "threads", "gpu"})

    @property
    def folder(self) -> str:
        """Folder or URI of this trial."""
        return f"{self.storage}/{self.name}"

    def config(self) -> FinetuneConfig:
        """Return the recipe of its training; raises `UserError` for impossible values."""
        try:
            return FinetuneConfig(
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=self.seed,
                **self.options,
            )
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.task}: {error}") from error


class Figures(NamedTuple):
    """Scores of a trained model; fields as in `TrialResult`."""

    dev: dict[str, float]
    test: dict[str, float]
    counters: dict[str, int]
    extra: Mapping[str, Any] = {}


class Work(Protocol):
    """The model and examples of a trial, with its scores and its form on disk."""

    model: TaskModel
    """On the device where it is trained."""
    examples: Sequence[HeadExample]

    def dev_score(self) -> float:
        """Return the current model's score on dev by the task's metric."""
        ...

    def figures(self) -> Figures:
        """Return all figures of the current model."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model into a folder, with all files that it needs to predict."""
        ...


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
    """Why it ended: `finished`, `patience`, or `diverged` (its loss became NaN or infinite, and it has no model)."""
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


def run_trial(trial: Trial, listen: Listener = lambda epochs, best: None) -> TrialResult:
    """Train, score and store. After a kill it resumes after the last whole epoch, with the same weights and scores.

    Raises:
        UserError: model, data or settings do not fit.
    """
    if trial.threads is not None:
        torch.set_num_threads(trial.threads)
    work, config = trial.prepare(), trial.config()

    def report(step: int, split: str, figures: Any) -> None:
        if split == "dev":
            listen(figures["epoch"], figures["best_score"])

    try:
        outcome = finetune(
            work.model,
            work.examples,
            config,
            evaluate=lambda _: work.dev_score(),
            report=report,
            save=functools.partial(save_checkpoint, trial.folder, trial.identity),
            resume=load_checkpoint(trial.folder, trial.identity),
        )
    except FloatingPointError as error:
        logger.warning("%s of %s: %s", trial.name, trial.task, error)
        return _store(TrialResult(trial=trial, stopped=DIVERGED))
    assert outcome.best is not None, "dev is never empty, and is scored after the last epoch"
    result = TrialResult(
        trial=trial,
        stopped=outcome.stopped,
        score=outcome.best.score,
        epoch=outcome.best.epoch,
        curve=[
            DevScore(step=point.step, epoch=point.epoch, score=point.score, train_loss=point.train_loss)
            for point in outcome.curve
        ],
        seconds=round(outcome.seconds, 3),
        sequences_per_second=round(outcome.sequences_per_second, 2),
        **work.figures()._asdict(),
    )
    work.model.cpu()
    return _store(result, work)


def check_seen(*folders: str) -> None:
    """Raise `UserError` if this machine lacks one of the folders that a trial reads."""
    for folder in folders:
        if not Path(folder).exists():
            raise UserError(
                f"{folder} does not exist on {socket.gethostname()}. Every machine that fine-tunes needs encoder and "
                "files at the same path. Put them on a shared file system."
            )


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


def _store(result: TrialResult, work: Work | None = None) -> TrialResult:
    """Write the trial's folder anew, without its checkpoint and with the result last."""
    filesystem, path = fsspec.core.url_to_fs(result.trial.folder)
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)
    filesystem.makedirs(path, exist_ok=True)
    if work is not None:
        with tempfile.TemporaryDirectory(prefix="yiwen-trial-") as name:
            work.save(Path(name))
            filesystem.put(name, f"{path}/{MODEL}", recursive=True)
    filesystem.pipe_file(f"{path}/{RESULT}", result.model_dump_json(indent=1).encode())
    return result
