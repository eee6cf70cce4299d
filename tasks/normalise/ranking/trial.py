"""A trial that trains the ranker of candidates: a classifier of pairs of diagnosis and term (eHealth, appendix E).

Its score is the F1 on dev of the decision that does best with it there (tasks/normalise/ranking/decision.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from models.heads.examples import HeadExample
from tasks.downstream.catalogue import task
from tasks.downstream.features.base import RIGHT, WRONG
from tasks.finetune.text import copy_text_files
from tasks.finetune.trials.model import build_model, load_start, warn_without_dropout
from tasks.finetune.trials.result import TrialResult
from tasks.finetune.trials.trial import Figures, Trial, Work, check_seen
from tasks.normalise.ranking.data import RankerData, load_ranker_data
from tasks.normalise.ranking.decision import TermDecision, tune_decision
from tasks.normalise.ranking.ranker import PairEncoder, TermRanker

DECISION = "decision"
"""Name of the tuned `TermDecision` among a trial's extra results."""


class RankerTrial(Trial):
    """One setting with one seed; `data` is the folder of `save_ranker_data`."""

    section: ClassVar[str] = "normaliser"

    @property
    def identity(self) -> str:
        """See `Trial.identity`. The folder `data` is not part of it, as `data_version` identifies the content."""
        return self.model_dump_json(exclude={"storage", "threads", "gpu", "data", "states", "knowledge"})

    def prepare(self) -> Work:
        """Read pairs and encoder, turn the pairs into tokens, and build the head."""
        check_seen(self.model)
        return _RankerWork(self, _data(self.data, self.data_version))


class _RankerWork:
    def __init__(self, trial: RankerTrial, data: RankerData) -> None:
        start = load_start(trial)
        self._trial, self._dev = trial, data.dev
        encoder = PairEncoder(start.tokenizer, start.max_length)
        self.examples: Sequence[HeadExample] = encoder.examples(data.pairs)
        self.model = build_model(trial, "pair", start.encoder, num_labels=2)
        self._ranker = TermRanker(self.model, start.tokenizer, start.max_length)

    def dev_score(self) -> float:
        return self._decide()[1]

    def figures(self) -> Figures:
        decision, f1 = self._decide()
        return Figures(
            dev={task(self._trial.task).metric: f1}, test={}, counters={}, extra={DECISION: asdict(decision)}
        )

    def save(self, folder: Path) -> None:
        self.model.save(folder, (WRONG, RIGHT))
        copy_text_files(self._trial.model, folder)

    def _decide(self) -> tuple[TermDecision, float]:
        judged = self._ranker.judge(self._dev.texts, self._dev.found, self._dev.parts)
        return tune_decision(judged, self._dev.gold)


def decision_of(result: TrialResult) -> TermDecision:
    """Return the decision that a finished trial tuned on dev; a diverged trial has none."""
    return TermDecision(**result.extra[DECISION])


def check_ranker_trials(trials: Sequence[RankerTrial]) -> None:
    """Build what the trials build, without training, so that an invalid setting is reported before any work is done.

    Raises:
        UserError: as `run_trial` does.
    """
    start = load_start(trials[0])
    warn_without_dropout(trials[0], start.encoder)
    for trial in trials:
        trial.config()


@functools.lru_cache(maxsize=1)
def _data(folder: str, version: str) -> RankerData:
    """Read the files, once per process for all its trials."""
    return load_ranker_data(folder)
