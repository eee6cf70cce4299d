"""One trial of fine-tuning: one setting with one seed, from the encoder's folder to a model that predicts alone.

A trial knows neither Ray nor the other trials. It leaves, in a folder of its own, `result.json` (written last: a folder
without it is of a killed trial) and `model/` with the best weights by dev. Until then a checkpoint of the last whole
epoch lies there (tasks/finetune_checkpoint.py), from which a killed trial goes on.

Time grows with epochs x tokens of train; memory with the model (three copies while it trains) and the task's records.
"""

from __future__ import annotations

import functools
import logging
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from infra.errors import UserError
from models import heads
from models.encoder import Encoder
from models.finetuning import FinetuneConfig, finetune
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from models.inference import predict
from models.pretrained import load_encoder, random_encoder
from tasks.downstream.alignment import TextTokenizer
from tasks.downstream.catalogue import task
from tasks.downstream.evaluation import metric_values, scored_answers
from tasks.downstream.features import Prediction
from tasks.downstream.records import Record
from tasks.downstream.shapes import TaskShape, shape_of
from tasks.downstream.spec import TaskSpec
from tasks.downstream.task_data import TaskData, load_task_data
from tasks.finetune_checkpoint import load_checkpoint, save_checkpoint
from tasks.saved_model import LEAST_LENGTH, save_task_model

logger = logging.getLogger(__name__)

RESULT = "result.json"
MODEL = "model"
DIVERGED = "diverged"

Listener = Callable[[float, float], None]
"""Told the epochs done and the best dev score so far."""


class Trial(BaseModel):
    """One setting with one seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    model: str
    """Folder of the encoder."""
    data: str
    """Folder of the task's files."""
    data_version: str
    """Fingerprint of these files."""
    storage: str
    """Folder or URI below which each trial has a folder of its own."""
    batch_size: int
    learning_rate: float
    epochs: int
    seed: int
    max_length: int | None = None
    limit: int | None = None
    options: dict[str, Any] = {}
    """Of `FinetuneConfig`."""
    head_options: dict[str, Any] = {}
    dropout: float | None = None
    """Rate of encoder and head; None: the encoder's own rates, and the head's default."""
    random_weights: bool = False
    """Train the encoder's architecture from fresh weights instead of its own."""
    threads: int | None = None
    """Of torch on the CPU; changes speed, and results in the last bits only."""
    gpu: bool = False
    """Both are set where it runs (tasks/finetune_placement.py)."""

    @property
    def setting(self) -> tuple[int, float, int]:
        """What seeds are averaged over: batch size, learning rate, epochs."""
        return self.batch_size, self.learning_rate, self.epochs

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"b{self.batch_size}-lr{self.learning_rate:g}-e{self.epochs}-s{self.seed}"

    @property
    def identity(self) -> str:
        """What a checkpoint of it must agree with: all that changes its results."""
        return self.model_dump_json(exclude={"storage", "threads", "gpu"})

    @property
    def folder(self) -> str:
        """Folder or URI of its own."""
        return f"{self.storage}/{self.name}"


class DevScore(BaseModel):
    """A point of the dev curve."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    step: int
    epoch: float
    score: float
    train_loss: float


class TrialResult(BaseModel):
    """What `result.json` holds."""

    model_config = ConfigDict(ser_json_inf_nan="constants")  # a pair score may be infinite

    trial: Trial
    stopped: str
    """Why it ended: `finished`, `patience`, or `diverged`: its loss became no number, and it has no model."""
    score: float = 0.0
    """The task's metric on dev, of the best epoch."""
    epoch: float = 0.0
    """Epochs that were done then."""
    dev: dict[str, float] = {}
    """All metrics on dev."""
    test: dict[str, float] = {}
    """All metrics on test; empty where its answers are not known. They choose nothing."""
    curve: list[DevScore] = []
    seconds: float = 0.0
    """Of training alone."""
    sequences_per_second: float = 0.0
    counters: dict[str, int] = {}
    """What features had to leave out, over all that the trial read."""


def run_trial(trial: Trial, listen: Listener = lambda epochs, best: None) -> TrialResult:
    """Train, score and store. After a kill it goes on behind the last whole epoch, to the same weights and scores.

    Raises:
        UserError: the model, the files or the settings do not fit.
    """
    if trial.threads is not None:
        torch.set_num_threads(trial.threads)
    _check_seen(trial)
    spec = task(trial.task)
    data = _data(trial.task, trial.data, trial.data_version, trial.limit)
    tokenizer = TextTokenizer.from_folder(trial.model)
    encoder = _encoder(trial, tokenizer)
    tokenizer.types = encoder.config.type_vocab_size
    shape = shape_of(spec, data.train, _length(spec, trial.max_length, encoder.config.max_positions))
    features = shape.features(tokenizer)
    pieces = features.encode(data.train)
    model = _build(shape, encoder, trial)
    config = _config(trial)

    ask_dev = features.asked(data.dev)

    def answer(examples: Sequence[HeadExample]) -> list[Any]:
        return predict(model, examples, precision=config.precision)

    def scores(records: Sequence[Record], found: Sequence[Prediction]) -> dict[str, float]:
        return metric_values(spec, records, scored_answers(spec, shape.labels, found))

    def report(step: int, split: str, figures: Any) -> None:
        if split == "dev":
            listen(figures["epoch"], figures["best_score"])

    try:
        outcome = finetune(
            model,
            [piece.example for piece in pieces],
            config,
            evaluate=lambda _: scores(data.dev, ask_dev(answer))[spec.metric],
            report=report,
            save=functools.partial(save_checkpoint, trial.folder, trial.identity),
            resume=load_checkpoint(trial.folder, trial.identity),
        )
    except FloatingPointError as error:
        logger.warning("%s of %s: %s", trial.name, spec.title, error)
        return _store(TrialResult(trial=trial, stopped=DIVERGED))
    assert outcome.best is not None, "dev is never empty, and is scored after the last epoch"
    result = TrialResult(
        trial=trial,
        stopped=outcome.stopped,
        score=outcome.best.score,
        epoch=outcome.best.epoch,
        dev=scores(data.dev, ask_dev(answer)),
        test=scores(data.test, features.predict(data.test, answer)) if data.test_has_answers else {},
        curve=[
            DevScore(step=point.step, epoch=point.epoch, score=point.score, train_loss=point.train_loss)
            for point in outcome.curve
        ],
        seconds=round(outcome.seconds, 3),
        sequences_per_second=round(outcome.sequences_per_second, 2),
        counters={name: count for name, count in features.counters.items() if count},
    )
    return _store(result, model.cpu(), shape)


def _check_seen(trial: Trial) -> None:
    for folder in (trial.model, trial.data):
        if not Path(folder).exists():
            raise UserError(
                f"{socket.gethostname()} sees no {folder}. All machines that fine-tune need encoder and files at "
                "the same path; put them on a file system that they share."
            )


def check_trials(trials: Sequence[Trial], data: TaskData) -> None:
    """Build what the trials build, without training, so that a setting that cannot be is told before any work is done.

    Raises:
        UserError: as `run_trial` does.
    """
    first = trials[0]
    encoder = _encoder(first, TextTokenizer.from_folder(first.model))
    if first.dropout is None and encoder.config.hidden_dropout == encoder.config.attention_dropout == 0.0:
        logger.warning("%s: its config.json sets no dropout; finetune.dropout=0.1 would be BERT's", first.model)
    spec = task(first.task)
    shape = shape_of(spec, data.train, _length(spec, first.max_length, encoder.config.max_positions))
    _build(shape, encoder, first)
    for trial in trials:
        _config(trial)


def read_result(folder: str) -> TrialResult | None:
    """The result of a finished trial; None where it was killed or never begun."""
    filesystem, path = fsspec.core.url_to_fs(f"{folder}/{RESULT}")
    try:
        return TrialResult.model_validate_json(filesystem.cat_file(path))
    except (FileNotFoundError, NotADirectoryError, ValidationError):  # the last: killed while it was written
        return None


def drop_model(folder: str) -> None:
    """Delete a trial's weights; its result stays."""
    filesystem, path = fsspec.core.url_to_fs(f"{folder}/{MODEL}")
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)


@functools.lru_cache(maxsize=1)
def _data(name: str, folder: str, version: str, limit: int | None) -> TaskData:
    """Trials in one process read the files once."""
    return load_task_data(task(name), folder, limit)


def _encoder(trial: Trial, tokenizer: TextTokenizer) -> Encoder:
    encoder = load_encoder(trial.model, trial.dropout)
    if tokenizer.size > encoder.config.vocab_size:
        raise UserError(
            f"{trial.model}: the tokeniser has {tokenizer.size:,} tokens and the encoder embeddings for "
            f"{encoder.config.vocab_size:,}. Put the tokeniser there that belongs to the encoder."
        )
    return random_encoder(encoder.config, trial.seed) if trial.random_weights else encoder


def _length(spec: TaskSpec, wanted: int | None, positions: int) -> int:
    if wanted is not None and wanted > positions:
        raise UserError(f"max_length={wanted} is more than the encoder's {positions} positions. Give at most that.")
    if wanted is None and spec.max_length > positions:
        logger.warning(
            "%s: max_length is %d, not %d: the encoder has no more positions", spec.title, positions, spec.max_length
        )
    length = min(wanted or spec.max_length, positions)
    if length < LEAST_LENGTH:
        raise UserError(f"max_length={length} leaves no room for text. Give {LEAST_LENGTH} or more.")
    return length


def _build(shape: TaskShape, encoder: Encoder, trial: Trial) -> TaskModel:
    options: dict[str, Any] = {**shape.head_options, **trial.head_options}
    if trial.dropout is not None:
        options["dropout"] = trial.dropout
    try:
        model = heads.build(shape.head, encoder, seed=trial.seed, **options)
    except ValueError as error:
        raise UserError(f"{shape.task}: {error}") from error
    return model.to("cuda" if trial.gpu else "cpu")


def _config(trial: Trial) -> FinetuneConfig:
    try:
        return FinetuneConfig(
            epochs=trial.epochs,
            batch_size=trial.batch_size,
            learning_rate=trial.learning_rate,
            seed=trial.seed,
            **trial.options,
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"{trial.task}: {error}") from error


def _store(result: TrialResult, model: TaskModel | None = None, shape: TaskShape | None = None) -> TrialResult:
    """Write the trial's folder, its result last; the checkpoint goes."""
    trial = result.trial
    filesystem, path = fsspec.core.url_to_fs(trial.folder)
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)
    filesystem.makedirs(path, exist_ok=True)
    if model is not None and shape is not None:
        with tempfile.TemporaryDirectory(prefix="yiwen-trial-") as name:
            save_task_model(Path(name), model, shape, trial.model)
            filesystem.put(name, f"{path}/{MODEL}", recursive=True)
    filesystem.pipe_file(f"{path}/{RESULT}", result.model_dump_json(indent=1).encode())
    return result
