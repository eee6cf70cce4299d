"""What a head asks of an encoder.

A head needs hidden states for a batch's tokens and does not care where they come from. `TaskEncoder` says what an
encoder must offer. Ours (models/encoder/network.py) offers it through `PlainEncoder`. Other kinds read more than token
ids: a knowledge model the batch's mentions of entities, a network over word vectors its tokens' features. They may come
with the examples, or the encoder finds them itself (`look_up`).

Shape legend: S sequences, T tokens laid end to end, D hidden size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from infra.errors import UserError
from models.encoder import inference
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.examples import TokenSequence
from models.heads.first_token import encode_first
from models.weights.pretrained import random_encoder, save_encoder


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

    @property
    def graph(self) -> tuple[str, str] | None:
        """Return stage and fingerprint of the graph whose entities the encoder's mentions name; None: it reads none."""
        return None

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
