"""Checks of a training before any work is done. Torch is imported only where settings cannot be checked without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from models import objectives
from models.training.config import TrainingConfig, check_tasks, training_config
from tasks.pretrain.params import TrainParams
from tasks.training.cluster import Cluster


def check_training(
    params: TrainParams,
    vocabulary_size: int,
    init_from: Path | None = None,
    vocabulary: Sequence[str] | None = None,
) -> None:
    """Check a training before any work is done: its settings, and the weights that it starts from.

    Args:
        init_from: folder of the BERT or ELECTRA whose weights the run begins with, if any.
        vocabulary: tokens to train with, if known; they must be those of `init_from`.

    Raises:
        UserError: an unknown key, an impossible value, an unknown figure in cluster.best_by, or initial weights that do
            not fit; the message names it.
    """
    if "vocab_size" in params.model:
        raise UserError("model.vocab_size follows from the vocabulary. Set vocabulary.size instead.")
    model = {**params.model, "vocab_size": vocabulary_size}
    try:
        config = training_config(params.training)
        settings = _settings(params.objective, model)
        check_tasks(config, settings.task_names() or (params.objective,))
    except ValueError as error:
        raise UserError(f"This model cannot be trained: {error}") from error
    for task in settings.shares() or (params.objective,):
        _check_workers(config, task, params.cluster)
    if params.cut_dependence is not None:
        _check_cuts(params)
    if params.cluster.best_by is not None or init_from is not None:
        _check_with_network(params, model, init_from, vocabulary)


def _settings(objective: str, model: Mapping[str, Any]) -> Any:
    """Return an objective's settings, checked. Raises ValueError, which names a setting with its section."""
    try:
        return objectives.check(objective, model)
    except ValueError as error:
        subject = re.match(r"[a-z_]+", str(error))  # neighbours in "neighbours must be a positive integer, got 0"
        if subject is None or subject[0] not in objectives.config_keys(objective):
            raise
        raise ValueError(f"model.{error}") from error


def _check_workers(config: TrainingConfig, task: str, cluster: Cluster) -> None:
    """Require that the batches of a task can be shared among the workers. Those of `batch_tokens` are not known yet."""
    size = config.batch_of(task).batch_size
    setting = f"training.tasks.{task}.batch_size" if task in config.tasks else "training.batch_size"
    if size is None:
        return
    if cluster.most_workers > size:
        raise UserError(
            f"cluster.workers is {cluster.most_workers}, more than the sequences in a batch ({size}), so some would "
            f"have nothing to do. Reduce cluster.workers, or raise {setting}."
        )
    if config.parallel != "fsdp2" or config.micro_batch_size is None:
        return
    for workers in range(max(1, cluster.fewest_workers), cluster.most_workers + 1):
        fewest, most = size // workers, -(-size // workers)
        if -(-most // config.micro_batch_size) > fewest:  # 9 rows, 2 workers, micro-batches of 1: 5 and 4 of them
            raise UserError(
                f"{size} sequences in micro-batches of {config.micro_batch_size} give {workers} workers unequal "
                f"numbers of them, which fsdp2 cannot share. Make {setting} a multiple of the workers, or raise "
                "training.micro_batch_size."
            )


def _check_cuts(params: TrainParams) -> None:
    """Require the settings that cut a batch, because the loss depends on them: they cannot be left to the hardware."""
    why = f"{params.cut_dependence} makes the loss depend on"
    if params.training.get("micro_batch_size") is None:
        raise UserError(f"{why} the number of rows that are compared at once. Set training.micro_batch_size.")
    workers = params.cluster.workers
    if not isinstance(workers, int):
        raise UserError(f"{why} the number of workers, but cluster.workers is {list(workers)}. Give one number.")


def _check_with_network(
    params: TrainParams, model: Mapping[str, Any], init_from: Path | None, vocabulary: Sequence[str] | None
) -> None:
    """Check what the network alone knows: the names of its held-out figures, and the sizes of its weights."""
    from models.continual import check_start
    from tasks.training.checkpoints import score_of

    objective = objectives.describe(params.objective, model)
    # An unknown cluster.best_by fails here, not hours later at the first checkpoint.
    score_of(dict.fromkeys(objective.held_out_figures, 0.0), params.cluster.best_by)
    if init_from is not None:
        check_start(init_from, objective, vocabulary)


def check_scores(objective: str, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Raise `UserError` if the scores name an unknown setting."""
    known = [variant.name for variant in objectives.ablations(objective)]
    for name in scores:
        if name not in known:
            raise UserError(f"scores: unknown setting {name!r}. Choose from {', '.join(known)}.")
