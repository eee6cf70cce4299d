"""The last four layers of a frozen encoder, side by side, as what a network reads (CMedLMs, section 4).

A base encoder gives 3,072 features per token. They are rounded to float16, whether they are computed here or read from
a cache, so a network learns from and predicts with the same numbers.

Shape legend: T tokens laid end to end, D hidden size, F = 4 D features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.encoders import ENCODER_FOLDER, EncoderSizes, PlainEncoder, TaskEncoder
from models.heads.examples import TokenSequence
from models.heads.state_cache import StateCache
from models.weights.pretrained import CONFIG_FILE, load_encoder, random_encoder, save_encoder

MODEL_TYPE = "frozen_states"
LAYERS = 4


class FrozenStates(nn.Module, TaskEncoder):
    """An encoder that is not trained.

    It is no registered part of the module, so checkpoints do not copy it; `to` moves it all the same.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self._encoder = (encoder.eval(),)  # nn.Module does not register what is inside a tuple
        self._cache: StateCache | None = None
        last = encoder.config.num_layers
        self.layers = tuple(range(max(0, last - LAYERS) + 1, last + 1))
        """Numbers of the layers, from 1; fewer than four if the encoder has fewer."""

    @property
    def encoder(self) -> Encoder:
        """The encoder, in eval mode."""
        return self._encoder[0]

    @property
    def sizes(self) -> EncoderSizes:
        """See `TaskEncoder.sizes`; the hidden size is F."""
        own = PlainEncoder(self.encoder).sizes
        return replace(own, hidden_size=own.hidden_size * len(self.layers), dropout=0.0, dropout_sites=0)

    def attach(self, folder: Path) -> None:
        """Read states from a cache from now on, for the sequences that it has.

        Raises:
            UserError: the folder is no such cache, or it has states of another width.
        """
        self._cache = StateCache.open(folder, self.sizes.hidden_size)

    def look_up(self, sequences: Sequence[TokenSequence]) -> Sequence[TokenSequence]:
        """Return the sequences with their cached states, or as they are if any is not in the cache."""
        if self._cache is None:
            return sequences
        found = [self._cache.find(sequence) for sequence in sequences]
        if any(one is None for one in found):
            return sequences
        return [replace(sequence, features=one) for sequence, one in zip(sequences, found, strict=True)]

    @torch.no_grad()
    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.states`; (T, F) without a gradient, as the encoder has no dropout here."""
        if batch.features is not None:
            return batch.features
        found = self.encoder.states(batch.input_ids, batch.layout, self.layers, batch.type_ids)
        states_TF = torch.cat([found[layer] for layer in self.layers], 1)
        return states_TF.half().float()

    def save(self, folder: Path) -> None:
        """See `TaskEncoder.save`; the encoder itself is in a folder within."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_FILE).write_text(json.dumps({"model_type": MODEL_TYPE}) + "\n", encoding="utf-8")
        save_encoder(self.encoder, folder / ENCODER_FOLDER)

    def fresh(self, seed: int) -> FrozenStates:
        """See `TaskEncoder.fresh`."""
        return FrozenStates(random_encoder(self.encoder.config, seed))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self.encoder._apply(fn, recurse)
        return super()._apply(fn, recurse)


def load_frozen(folder: Path, dropout: float | None = None) -> FrozenStates:
    """Load what `FrozenStates.save` wrote, on the CPU. Raises `UserError` as `load_encoder` does."""
    return FrozenStates(load_encoder(folder / ENCODER_FOLDER))
