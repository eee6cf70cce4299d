"""A trial that aligns the names of concepts by self-alignment (SapBERT; models/heads/alignment.py).

Its score is judged on the pairs of dev: the share of first names whose nearest name, among all second names and hard
negatives of dev, means the same concept.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import fsspec
import numpy as np
import polars as pl
from pydantic import Field

from infra.errors import UserError
from models.heads.examples import HeadExample, TokenSequence
from models.heads.task_model import TaskModel
from models.inference import predict
from tasks.finetune.text import copy_text_files
from tasks.finetune.trials.model import build_model, load_start, warn_without_dropout
from tasks.finetune.trials.trial import Figures, Trial, Work, check_seen
from tasks.normalise.meaning.encoder import NameTokens
from tasks.normalise.meaning.folders import write_pooling

PAIRS = "pairs.parquet"
METRIC = "nearest"
"""Name of the score among a trial's results."""


class EncoderTrial(Trial):
    """One setting with one seed; `data` is a folder with the table `synonym_pairs` as `PAIRS`."""

    section: ClassVar[str] = "encoder"

    pooling: str = "mean"
    loss: dict[str, float] = Field(default_factory=dict)
    """Fields of `MultiSimilarityConfig`."""

    @property
    def identity(self) -> str:
        """See `Trial.identity`. The folder `data` is not part of it, as `data_version` identifies the content."""
        return self.model_dump_json(exclude={"storage", "threads", "gpu", "data", "knowledge"})

    def prepare(self) -> Work:
        """Read pairs and encoder, and turn the names into tokens."""
        check_seen(self.model)
        return _EncoderWork(self, _pairs(self.data, self.data_version))


class _Dev(NamedTuple):
    """Names that judge a training, and their concepts, int64."""

    asked: Sequence[HeadExample]
    concepts_N: np.ndarray
    others: Sequence[HeadExample]
    concepts_M: np.ndarray


class _EncoderWork:
    def __init__(self, trial: EncoderTrial, pairs: pl.DataFrame) -> None:
        start = load_start(trial)
        self._trial = trial
        self.model: TaskModel = build_model(trial, "alignment", start.encoder, pooling=trial.pooling, **trial.loss)
        rows = list(pairs.select("concept", "first", "second", "negatives", "negative_concepts", "split").iter_rows())
        names = list(dict.fromkeys(name for _, first, second, more, _, _ in rows for name in (first, second, *more)))
        sequences, places = NameTokens(start.tokenizer, start.max_length).distinct(names)
        # A name that the vocabulary does not know means nothing to the encoder.
        known = {name: sequences[at] for name, at in zip(names, places, strict=True) if at >= 0}
        self.unreadable = len(names) - len(known)
        learnt = [row for row in rows if row[-1] == "train"]
        self.examples: Sequence[HeadExample] = list(filter(None, (_example(row, known) for row in learnt)))
        self._dev = _dev_of([row for row in rows if row[-1] == "dev"], known)
        if not self.examples or not self._dev.asked:
            raise UserError(
                f"{trial.model}: its vocabulary knows none of the names to learn from or to judge by. Give an encoder "
                "whose vocabulary was made from text in the language of the list."
            )

    def dev_score(self) -> float:
        asked_ND = np.concatenate(predict(self.model, self._dev.asked))
        others_MD = np.concatenate(predict(self.model, self._dev.others))
        nearest_N = (asked_ND @ others_MD.T).argmax(1)
        return float((self._dev.concepts_M[nearest_N] == self._dev.concepts_N).mean())

    def figures(self) -> Figures:
        counters = {"names_unreadable": self.unreadable, "pairs": len(self.examples), "dev_pairs": len(self._dev.asked)}
        return Figures(dev={METRIC: self.dev_score()}, test={}, counters=counters)

    def save(self, folder: Path) -> None:
        self.model.reader.save(folder)
        write_pooling(folder, self._trial.pooling)
        copy_text_files(self._trial.model, folder)


_Row = tuple[int, str, str, Sequence[str], Sequence[int], str]


def _example(row: _Row, known: dict[str, TokenSequence]) -> HeadExample | None:
    """Return both names of a pair and its negatives; None if the encoder cannot read a name of the pair."""
    concept, first, second, negatives, others, _ = row
    if first not in known or second not in known:
        return None
    more = [(known[name], other) for name, other in zip(negatives, others, strict=True) if name in known]
    sequences = (known[first], known[second], *(sequence for sequence, _ in more))
    return HeadExample(sequences, np.array([concept, concept, *(other for _, other in more)], dtype=np.int64))


def _dev_of(rows: Sequence[_Row], known: dict[str, TokenSequence]) -> _Dev:
    read = [row for row in rows if row[1] in known and row[2] in known]
    others: dict[str, int] = {}
    for concept, _, second, negatives, their, _ in read:
        others |= {second: concept} | {name: at for name, at in zip(negatives, their, strict=True) if name in known}
    asked = [HeadExample((known[row[1]],)) for row in read]
    return _Dev(
        asked,
        np.array([row[0] for row in read], dtype=np.int64),
        [HeadExample((known[name],)) for name in others],
        np.array(list(others.values()), dtype=np.int64),
    )


def check_encoder_trials(trials: Sequence[EncoderTrial]) -> None:
    """Build what the trials build, without training, so that an invalid setting is reported before any work is done.

    Raises:
        UserError: as `run_trial` does.
    """
    start = load_start(trials[0])
    warn_without_dropout(trials[0], start.encoder)
    for trial in trials:
        trial.config()
    build_model(trials[0], "alignment", start.encoder, pooling=trials[0].pooling, **trials[0].loss)


@functools.lru_cache(maxsize=1)
def _pairs(folder: str, version: str) -> pl.DataFrame:
    """Read the file, once per process for all its trials."""
    with fsspec.open(f"{folder}/{PAIRS}", "rb") as file:
        return pl.read_parquet(file)
