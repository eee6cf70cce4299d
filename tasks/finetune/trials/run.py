"""Running one trial of fine-tuning, from the encoder's folder to a model that predicts without other files.

Time grows with epochs x tokens of train. Memory grows with the model, of which training has three copies, and with the
training data.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch

from models.finetuning import finetune
from tasks.finetune.trials.checkpoint import load_checkpoint, save_checkpoint
from tasks.finetune.trials.result import DIVERGED, DevScore, TrialResult, store_result
from tasks.finetune.trials.trial import Trial

logger = logging.getLogger(__name__)

Listener = Callable[[float, float], None]
"""Receives the epochs done and the best dev score so far."""


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
        return store_result(TrialResult(trial=trial, stopped=DIVERGED))
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
    return store_result(result, work)
