"""A trial that learns a task's records: encoder, head and files of one of tasks/downstream/catalogue/."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from infra.errors import UserError
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from models.inference import predict
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import metric_values, scored_answers
from tasks.downstream.features.base import Prediction
from tasks.downstream.features.shapes import TaskShape, shape_of
from tasks.downstream.own import task_in
from tasks.downstream.records import Record
from tasks.downstream.scoring import tally
from tasks.downstream.task_data import TaskData, drawn_records, load_task_data
from tasks.finetune.saved_model import save_task_model
from tasks.finetune.trials.balance import balanced_weights
from tasks.finetune.trials.model import Start, attach_states, build_model, load_start, warn_without_dropout
from tasks.finetune.trials.trial import Figures, Trial, Work, check_seen

TALLY = "tally"
"""Name of the counts in `TrialResult.extra`."""


class TaskTrial(Trial):
    """One setting with one seed on a task's files."""

    section: ClassVar[str] = "finetune"

    limit: int | None = None
    train_records: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Records of train that are drawn by the seed; None: all. Dev, test and labels are those of all."""
    tallied: bool = Field(default=False, exclude_if=lambda value: not value)
    """Keep the counts of the task's metric on each test record in the result, as `extra["tally"]`."""
    head_options: dict[str, Any] = Field(default_factory=dict)
    states: str | None = None
    """Folder with the states of a frozen encoder, which save time and change nothing (tasks/finetune/sources/)."""
    class_weights: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """See `FinetuneParams.class_weights`."""

    @property
    def contest(self) -> str:
        """See `Trial.contest`: each network has a best run of its own."""
        return str(self.head_options.get("network", ""))

    @property
    def name(self) -> str:
        """See `Trial.name`; with the network before it: `cnn-b64-lr0.001-e100-s1`."""
        return f"{self.contest}-{super().name}" if self.contest else super().name

    def prepare(self) -> Work:
        """Read files and encoder, turn the records into tokens, and build the head."""
        check_seen(self.model, self.data)
        return _TaskWork(self, _data(self.task, self.data, self.data_version, self.limit), load_start(self))


class _TaskWork:
    def __init__(self, trial: TaskTrial, data: TaskData, start: Start) -> None:
        self._trial, self._data = trial, data
        self._spec, self._precision = task_in(trial.task, trial.data), trial.config().precision
        self._shape = _shape(trial, data, start)
        self._features = self._shape.features(start.tokenizer)
        self.examples: Sequence[HeadExample] = [piece.example for piece in self._features.encode(_learnt(trial, data))]
        self.model = _head(trial, self._shape, start, data)
        self._ask_dev = self._features.asked(data.dev)

    def dev_score(self) -> float:
        return self._scores(self._data.dev, self._ask_dev(self._answer))[self._spec.metric]

    def figures(self) -> Figures:
        test = self._data.test if self._data.test_has_answers else ()
        found = self._features.predict(test, self._answer) if test else []
        return Figures(
            dev=self._scores(self._data.dev, self._ask_dev(self._answer)),
            test=self._scores(test, found) if test else {},
            counters={name: count for name, count in self._features.counters.items() if count},
            extra={TALLY: self._tally(test, found)} if self._trial.tallied else {},
        )

    def _tally(self, records: Sequence[Record], found: Sequence[Prediction]) -> list[list[float]]:
        answers = scored_answers(self._spec, self._shape.labels, found)
        rows: list[list[float]] = tally(self._spec, self._spec.metric, records, answers).tolist()
        return rows

    def save(self, folder: Path) -> None:
        save_task_model(folder, self.model, self._shape, self._trial.model)

    def _answer(self, examples: Sequence[HeadExample]) -> list[Any]:
        return predict(self.model, examples, precision=self._precision)

    def _scores(self, records: Sequence[Record], found: Sequence[Prediction]) -> dict[str, float]:
        return metric_values(self._spec, records, scored_answers(self._spec, self._shape.labels, found))


def check_trials(trials: Sequence[TaskTrial], data: TaskData) -> None:
    """Build what the trials build, without training, so that impossible settings fail before any work is done.

    Raises:
        UserError: as `run_trial` does.
    """
    first = trials[0]
    start = load_start(first)
    if not first.contest:  # a network's encoder is frozen, and the network drops out itself
        warn_without_dropout(first, start.encoder)
    _head(first, _shape(first, data, start), start, data)
    for trial in trials:
        trial.config()


@functools.lru_cache(maxsize=1)
def _data(name: str, folder: str, version: str, limit: int | None) -> TaskData:
    """Read the files, once for all trials in this process."""
    return load_task_data(task_in(name, folder), folder, limit)


def _shape(trial: TaskTrial, data: TaskData, start: Start) -> TaskShape:
    own = () if data.own is None else data.own.text_fields
    return shape_of(task(trial.task), data.train, start.max_length, own)


def _learnt(trial: TaskTrial, data: TaskData) -> Sequence[Record]:
    return drawn_records(data.train, trial.train_records, trial.seed)


def _head(trial: TaskTrial, shape: TaskShape, start: Start, data: TaskData) -> TaskModel:
    model = build_model(trial, shape.head, start.encoder, **{**shape.head_options, **trial.head_options})
    attach_states(model, trial.states)
    if trial.class_weights is not None:
        try:
            model.weigh_labels(balanced_weights(shape, _learnt(trial, data)))
        except ValueError as error:
            raise UserError(f"{trial.section}.class_weights: {error}. Leave it out.") from error
    return model
