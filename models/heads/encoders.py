"""Kinds of encoder folders, and how each is opened for a head (task_encoder.py).

To add a kind: a class that is an `nn.Module` and a `TaskEncoder`, and a line in `KINDS` for the `model_type` that its
`save` writes into config.json. tests/support/heads/other_encoders.py has two small ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from torch import nn

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import TRANSFORMERS_TYPES
from models.encoder.network import Encoder
from models.heads.knowledge import KnowledgeEncoder
from models.heads.task_encoder import EncoderSizes, PlainEncoder, TaskEncoder
from models.knowledge_model.network import MODEL_TYPE as KNOWLEDGE_MODEL
from models.knowledge_model.source import GivenKnowledge
from models.weights.pretrained import CONFIG_FILE, load_encoder

__all__ = [
    "ENCODER_FOLDER",
    "KINDS",
    "OWN_TYPE",
    "AnyEncoder",
    "EncoderSizes",
    "PlainEncoder",
    "TaskEncoder",
    "as_task_encoder",
    "open_encoder",
    "open_plain_encoder",
]

ENCODER_FOLDER = "encoder"
"""Folder of the encoder within a fine-tuned model that transformers has no class for."""
OWN_TYPE = "yiwen-"
"""Beginning of the `model_type` of such a model, followed by the head."""

AnyEncoder = Encoder | TaskEncoder
"""Encoder that a head can be built on."""

Loader = Callable[[Path, float | None], AnyEncoder]
"""Function of a folder and a dropout rate (None: that of config.json) that returns its encoder on the CPU.

It raises UserError naming the folder if a file is missing, damaged or does not fit.
"""

KINDS: dict[str, Loader] = {
    **dict.fromkeys(TRANSFORMERS_TYPES, load_encoder),
    KNOWLEDGE_MODEL: KnowledgeEncoder.load,
}
"""Kinds of encoder folders, by the `model_type` in config.json."""


def as_task_encoder(encoder: AnyEncoder) -> TaskEncoder:
    """Return the encoder as heads use it. Raises ValueError if it is not an encoder."""
    if isinstance(encoder, Encoder):
        return PlainEncoder(encoder)
    if not (isinstance(encoder, TaskEncoder) and isinstance(encoder, nn.Module)):
        raise ValueError(f"a head stands on an Encoder or on an nn.Module that is a TaskEncoder, got {type(encoder)}")
    return encoder


def open_encoder(folder: str | Path, dropout: float | None = None, knowledge: GivenKnowledge = None) -> AnyEncoder:
    """Load the encoder of a folder of any kind, or of a fine-tuned model, on the CPU.

    Its dropout rates are those of its config.json, or `dropout` throughout.

    Args:
        knowledge: the knowledge of a model that reads some (models/knowledge_model/source.py); None: look for it.

    Raises:
        UserError: the folder is of no known kind, one of its files or its knowledge is missing or damaged, or knowledge
            is given to an encoder that reads none; the message names it.
    """
    place = _encoder_folder(Path(folder))
    kind = _model_type(place)
    if kind == KNOWLEDGE_MODEL:
        return KnowledgeEncoder.load(place, dropout, knowledge)
    if knowledge is not None and knowledge is not False:
        raise UserError(
            f"{place} reads no knowledge: its model_type is {kind!r}. Leave knowledge out, or give the folder of the "
            "model with knowledge."
        )
    return KINDS.get(kind, load_encoder)(place, dropout)


def reads_knowledge(folder: str | Path) -> bool:
    """Return whether `open_encoder` takes knowledge for a folder. Raises `UserError` if it is of no known kind."""
    return _model_type(_encoder_folder(Path(folder))) == KNOWLEDGE_MODEL


def _encoder_folder(folder: Path) -> Path:
    """Return the folder of the encoder: a subfolder, in a fine-tuned model that transformers has no class for."""
    if not _model_type(folder).startswith(OWN_TYPE):
        return folder
    place = folder / ENCODER_FOLDER
    if not (place / CONFIG_FILE).is_file():
        raise UserError(f"{place} is missing or has no {CONFIG_FILE}. Copy the whole folder of the model again")
    return place


def open_plain_encoder(folder: str | Path, dropout: float | None = None) -> Encoder:
    """Load our own encoder of a folder; of a model with knowledge it is the encoder without.

    Raises:
        UserError: as `open_encoder`, or the folder's kind is not built on our encoder.
    """
    found = open_encoder(folder, dropout, knowledge=False)
    if isinstance(found, KnowledgeEncoder):
        return found.network.encoder
    if not isinstance(found, Encoder):
        raise UserError(f"{folder} is a {type(found).__name__}, not an encoder of layers. Give another model.")
    return found


def _model_type(place: Path) -> str:
    """Return the kind that config.json names; empty if it names none, which `load_encoder` explains."""
    try:
        config = json.loads(small_text(place / CONFIG_FILE))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(config.get("model_type")) if isinstance(config, dict) else ""
