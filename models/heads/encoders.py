"""What a head asks of an encoder, and the kinds of encoder folders.

A head needs hidden states for a batch's tokens and does not care where they come from. `TaskEncoder` says what an
encoder must offer. Ours (models/encoder/network.py) offers it through `PlainEncoder`. Other kinds read more than token
ids: a knowledge model the batch's mentions of entities, a network over word vectors its tokens' features. They may come
with the examples, or the encoder finds them itself (`look_up`).

To add a kind: a class that is an `nn.Module` and a `TaskEncoder`, and a line in `KINDS` for the `model_type` that its
`save` writes into config.json. tests/support/heads/other_encoders.py has two small ones.

Shape legend: S sequences, T tokens laid end to end, D hidden size.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from infra.errors import UserError
from models.encoder import inference
from models.encoder.config import TRANSFORMERS_TYPES
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.examples import TokenSequence
from models.heads.first_token import encode_first
from models.weights.pretrained import CONFIG_FILE, load_encoder, random_encoder, save_encoder

ENCODER_FOLDER = "encoder"
"""Folder of the encoder within a fine-tuned model that transformers has no class for."""
OWN_TYPE = "yiwen-"
"""Beginning of the `model_type` of such a model, followed by the head."""


@dataclass(frozen=True, kw_only=True)
class EncoderSizes:
    """Sizes of an encoder, as far as heads, features and messages need them."""

    vocab_size: int
    hidden_size: int
    """D, the width of the states."""
    max_positions: int
    """Length of the longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Number of segment types; 1 if the encoder does not tell a pair's texts apart."""
    initializer_range: float = 0.02
    """Standard deviation of a head's fresh weights."""
    dropout: float = 0.0
    """Highest dropout rate inside the encoder."""
    dropout_sites: int = 0
    """Number of the encoder's own dropout sites, which fork the batch's noise at 0, 1, …; the head's is the next."""
    by_word: bool = False
    """True if a tagged character's token is the word around it."""


class TaskEncoder(ABC):
    """What a head asks of an encoder. Kinds of their own are `nn.Module`s as well."""

    @property
    @abstractmethod
    def sizes(self) -> EncoderSizes:
        """Return the encoder's sizes."""

    @abstractmethod
    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """Return hidden states (T, D) in the layout's order.

        `noise` has the dropout streams of training on the CPU. Without it, an encoder that trains draws its dropout
        from the device's generator.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write config.json, with the `model_type` of the kind, and everything else that `KINDS` needs to load it."""

    def first_states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """Return hidden states (S, D) of each sequence's first token, in the layout's order."""
        return self.states(batch, noise)[batch.layout.firsts]

    def look_up(self, sequences: Sequence[TokenSequence]) -> Sequence[TokenSequence]:
        """Return the sequences with the mentions or features that the encoder finds for them; none by default."""
        return sequences

    def fresh(self, seed: int) -> TaskEncoder | Encoder:
        """Return an encoder of the same architecture with fresh weights from `seed`.

        Raises:
            UserError: the kind has none, because its weights are data.
        """
        raise UserError(f"A {type(self).__name__} cannot start from fresh weights. Leave random_weights out.")


class PlainEncoder(TaskEncoder):
    """Our own encoder as a `TaskEncoder`; it reads neither mentions nor features."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def sizes(self) -> EncoderSizes:
        """See `TaskEncoder.sizes`."""
        config = self._encoder.config
        return EncoderSizes(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_positions,
            type_vocab_size=config.type_vocab_size,
            initializer_range=config.initializer_range,
            dropout=max(config.hidden_dropout, config.attention_dropout),
            dropout_sites=config.num_layers + 1,
        )

    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.states`."""
        if inference.applies(self._encoder):
            return inference.encode(self._encoder, batch.input_ids, batch.layout, batch.type_ids)
        return self._encoder(batch.input_ids, batch.layout, batch.type_ids, noise)

    def first_states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.first_states`; the last layer runs for the first tokens alone."""
        if inference.applies(self._encoder):
            return inference.encode_first(self._encoder, batch.input_ids, batch.layout, batch.type_ids)
        return encode_first(self._encoder, batch.input_ids, batch.layout, batch.type_ids, noise)

    def save(self, folder: Path) -> None:
        """See `TaskEncoder.save`."""
        save_encoder(self._encoder, folder)

    def fresh(self, seed: int) -> Encoder:
        """See `TaskEncoder.fresh`."""
        return random_encoder(self._encoder.config, seed)


AnyEncoder = Encoder | TaskEncoder
"""Encoder that a head can be built on."""

Loader = Callable[[Path, float | None], AnyEncoder]
"""Function of a folder and a dropout rate (None: that of config.json) that returns its encoder on the CPU.

It raises UserError naming the folder if a file is missing, damaged or does not fit.
"""

KINDS: dict[str, Loader] = dict.fromkeys(TRANSFORMERS_TYPES, load_encoder)
"""Kinds of encoder folders, by the `model_type` in config.json."""


def as_task_encoder(encoder: AnyEncoder) -> TaskEncoder:
    """Return the encoder as heads use it. Raises ValueError if it is not an encoder."""
    if isinstance(encoder, Encoder):
        return PlainEncoder(encoder)
    if not (isinstance(encoder, TaskEncoder) and isinstance(encoder, nn.Module)):
        raise ValueError(f"a head stands on an Encoder or on an nn.Module that is a TaskEncoder, got {type(encoder)}")
    return encoder


def open_encoder(folder: str | Path, dropout: float | None = None) -> AnyEncoder:
    """Load the encoder of a folder of any kind, or of a fine-tuned model, on the CPU.

    Its dropout rates are those of its config.json, or `dropout` throughout.

    Raises:
        UserError: the folder is of no known kind, or one of its files is missing or damaged; the message names it.
    """
    place = Path(folder)
    if _model_type(place).startswith(OWN_TYPE):
        place /= ENCODER_FOLDER
        if not (place / CONFIG_FILE).is_file():
            raise UserError(f"{place} is missing or has no {CONFIG_FILE}. Copy the whole folder of the model again")
    return KINDS.get(_model_type(place), load_encoder)(place, dropout)


def _model_type(place: Path) -> str:
    """Return the kind that config.json names; empty if it names none, which `load_encoder` explains."""
    try:
        config = json.loads((place / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(config.get("model_type")) if isinstance(config, dict) else ""
