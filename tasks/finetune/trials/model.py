"""The model of a trial: an encoder with its tokeniser, and a fresh head."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

from infra.errors import UserError
from models import heads
from models.heads.encoders import AnyEncoder, as_task_encoder, open_encoder
from models.heads.frozen import FrozenStates
from models.heads.task_model import TaskModel
from models.knowledge_model.source import GivenKnowledge
from tasks.downstream.catalogue import task
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.spec import TaskSpec
from tasks.finetune.saved_model import LEAST_LENGTH
from tasks.finetune.text import fit_tokenizer
from tasks.finetune.trials.trial import Trial, check_seen

logger = logging.getLogger(__name__)


class Start(NamedTuple):
    """Encoder and tokeniser that a trial begins with."""

    encoder: AnyEncoder
    tokenizer: TextTokenizer
    max_length: int
    """Tokens of a sequence."""


def load_start(trial: Trial) -> Start:
    """Return the encoder of a trial on the CPU, or one of its architecture with fresh weights, and its tokeniser.

    Raises `UserError` as `open_start` does.
    """
    start = open_start(trial.model, task(trial.task), trial.max_length, trial.dropout, trial.knowledge)
    if not trial.random_weights:
        return start
    return start._replace(encoder=as_task_encoder(start.encoder).fresh(trial.seed))


def open_start(
    folder: str,
    spec: TaskSpec,
    max_length: int | None = None,
    dropout: float | None = None,
    knowledge: GivenKnowledge = None,
) -> Start:
    """Return the encoder of a folder on the CPU, and its tokeniser.

    Args:
        max_length: tokens of a sequence; None: the task's, or the encoder's positions if those are fewer.
        dropout: rate throughout the encoder; None: those of its config.json.
        knowledge: the knowledge of an encoder that reads some; None: look for it.

    Raises:
        UserError: the folder has no encoder or tokeniser, the two do not belong together, the encoder's knowledge is
            missing, or it has too few positions.
    """
    tokenizer = TextTokenizer.from_folder(folder)
    encoder = open_encoder(folder, dropout, knowledge)
    sizes = as_task_encoder(encoder).sizes
    if tokenizer.size > sizes.vocab_size:
        raise UserError(
            f"{folder}: the tokeniser has {tokenizer.size:,} tokens and the encoder embeddings for "
            f"{sizes.vocab_size:,}. Put the tokeniser there that belongs to the encoder."
        )
    fit_tokenizer(tokenizer, folder, encoder)
    return Start(encoder, tokenizer, _max_length(spec, max_length, sizes.max_positions))


def build_model(trial: Trial, head: str, encoder: AnyEncoder, **options: Any) -> TaskModel:
    """Return the encoder with a fresh head, on the trial's device; raises `UserError` for impossible options."""
    if trial.dropout is not None:
        options["dropout"] = trial.dropout
    try:
        model = heads.build(head, encoder, seed=trial.seed, **options)
    except ValueError as error:
        raise UserError(f"{trial.task}: {error}") from error
    return model.to("cuda" if trial.gpu else "cpu")


def attach_states(model: TaskModel, folder: str | None) -> None:
    """Let a network over a frozen encoder read states from a folder (sources/states.py), if there is one.

    Raises `UserError` if they are damaged or of another encoder.
    """
    if folder is not None and isinstance(model.encoder, FrozenStates):
        check_seen(folder)
        model.encoder.attach(Path(folder))


def warn_without_dropout(trial: Trial, encoder: AnyEncoder) -> None:
    """Log a warning if neither the trial nor its encoder sets any dropout, though the encoder has places for it."""
    sizes = as_task_encoder(encoder).sizes
    if trial.dropout is None and sizes.dropout_sites and sizes.dropout == 0.0:
        logger.warning(
            "%s: config.json sets no dropout. For BERT's rate, set %s.dropout=0.1.", trial.model, trial.section
        )


def _max_length(spec: TaskSpec, wanted: int | None, positions: int) -> int:
    if wanted is not None and wanted > positions:
        raise UserError(
            f"max_length={wanted} is more than the encoder's {positions} positions. Reduce it to {positions}."
        )
    if wanted is None and spec.max_length > positions:
        logger.warning(
            "%s: max_length is %d and not %d, because the encoder has no more positions",
            spec.title,
            positions,
            spec.max_length,
        )
    length = min(wanted or spec.max_length, positions)
    if length < LEAST_LENGTH:
        raise UserError(f"max_length={length} leaves no room for text. Set {LEAST_LENGTH} or more.")
    return length
