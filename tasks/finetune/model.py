"""The model of a trial: an encoder with its tokeniser, and a fresh head."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from infra.errors import UserError
from models import heads
from models.heads.encoders import AnyEncoder, as_task_encoder, open_encoder
from models.heads.task_model import TaskModel
from tasks.downstream.catalogue import task
from tasks.downstream.features.alignment import TextTokenizer
from tasks.finetune.saved_model import LEAST_LENGTH
from tasks.finetune.trial import Trial

logger = logging.getLogger(__name__)


class Start(NamedTuple):
    """Encoder and tokeniser that a trial begins with."""

    encoder: AnyEncoder
    tokenizer: TextTokenizer
    max_length: int
    """Tokens of a sequence."""


def load_start(trial: Trial) -> Start:
    """Return the encoder of a trial on the CPU, or one of its architecture with fresh weights, and its tokeniser.

    Raises:
        UserError: the folder has no encoder or tokeniser, the two do not belong together, or the encoder has too few
            positions.
    """
    tokenizer = TextTokenizer.from_folder(trial.model)
    encoder = open_encoder(trial.model, trial.dropout)
    sizes = as_task_encoder(encoder).sizes
    if tokenizer.size > sizes.vocab_size:
        raise UserError(
            f"{trial.model}: the tokeniser has {tokenizer.size:,} tokens and the encoder embeddings for "
            f"{sizes.vocab_size:,}. Put the tokeniser there that belongs to the encoder."
        )
    tokenizer.types = sizes.type_vocab_size
    encoder = as_task_encoder(encoder).fresh(trial.seed) if trial.random_weights else encoder
    return Start(encoder, tokenizer, _max_length(trial, sizes.max_positions))


def build_model(trial: Trial, head: str, encoder: AnyEncoder, **options: Any) -> TaskModel:
    """Return the encoder with a fresh head, on the trial's device; raises `UserError` for impossible options."""
    if trial.dropout is not None:
        options["dropout"] = trial.dropout
    try:
        model = heads.build(head, encoder, seed=trial.seed, **options)
    except ValueError as error:
        raise UserError(f"{trial.task}: {error}") from error
    return model.to("cuda" if trial.gpu else "cpu")


def warn_without_dropout(trial: Trial, encoder: AnyEncoder) -> None:
    """Log a warning if neither the trial nor its encoder sets any dropout."""
    if trial.dropout is None and as_task_encoder(encoder).sizes.dropout == 0.0:
        logger.warning(
            "%s: config.json sets no dropout. For BERT's rate, set %s.dropout=0.1.", trial.model, trial.section
        )


def _max_length(trial: Trial, positions: int) -> int:
    spec, wanted = task(trial.task), trial.max_length
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
