"""One trial of fine-tuning: one setting with one seed.

A kind of trial is a subclass of `Trial`: the records of a task (task_trial.py) or pairs for a ranker
(tasks/normalise/ranking/trial.py). A trial knows neither Ray nor the other trials. run.py trains it.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from infra.errors import UserError
from models.finetuning import FinetuneConfig
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel


class Trial(BaseModel, ABC):
    """One setting with one seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    section: ClassVar[str]
    """Section of the parameters where users set it, for messages."""

    task: str
    model: str
    """Folder of the encoder."""
    knowledge: str | None = None
    """Folder of its knowledge, if it reads some and does not find it itself. The encoder checks its content."""
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
    """Like `threads`, set when the trial is placed (tasks/finetune/trials/placement.py)."""

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
    def contest(self) -> str:
        """What its best run is sought for; only trials of one contest are compared. One for all by default."""
        return ""

    @property
    def name(self) -> str:
        """Name of its folder, such as `b32-lr0.0001-e4-s1`."""
        return f"b{self.batch_size}-lr{self.learning_rate:g}-e{self.epochs}-s{self.seed}"

    @property
    def identity(self) -> str:
        """Everything that changes its results; only checkpoints and results with the same identity are its own."""
        return self.model_dump_json(exclude={"storage", "threads", "gpu", "states", "knowledge"})

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
    """Scores of a trained model; fields as in `tasks.finetune.trials.result.TrialResult`."""

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


def check_seen(*folders: str) -> None:
    """Raise `UserError` if this machine lacks one of the folders that a trial reads."""
    for folder in folders:
        if not Path(folder).exists():
            raise UserError(
                f"{folder} does not exist on {socket.gethostname()}. Every machine that fine-tunes needs encoder and "
                "files at the same path. Put them on a shared file system."
            )
