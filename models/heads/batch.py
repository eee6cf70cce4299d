"""Packed batch of a head's examples.

Sequences are sorted by length, so that equal lengths form long runs (models/encoder/layout.py); `TaskBatch.places`
finds each one again. Dropout is keyed by an example's place in the batch, so sorting changes nothing.

Shape legend: E examples, S sequences (S = E except for multiple choice), T tokens laid end to end, N mentions, F
features of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.heads.examples import MENTION_FIELDS, HeadExample, TokenSequence

DROPOUT_STREAM = 1001
"""Purpose of dropout's draws in fine-tuning; far from pre-training's `randomness.Stream`."""


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """What an encoder reads. Tensors are int64 unless stated otherwise."""

    layout: Layout
    """S sequences, the shortest first."""
    input_ids: Tensor
    """(T,)"""
    type_ids: Tensor
    """(T,)"""
    mentions: Tensor | None = None
    """(N, 4): mentions as in `TokenSequence`, with tokens counted through the batch; None if no sequence has any."""
    features: Tensor | None = None
    """float32 (T, F): features as in `TokenSequence`; None if no sequence has any."""


@dataclass(frozen=True, kw_only=True)
class TaskBatch(TokenBatch):
    """A packed batch of examples."""

    places: Tensor
    """(S,): place in the layout of the i-th sequence, counted through the examples in their order."""
    counts: tuple[int, ...]
    """Number of sequences of each example (E numbers)."""
    targets: Mapping[str, Tensor] = field(default_factory=dict)
    """Inputs of the head's loss, by name; empty if the examples have no targets."""
    seed: int = 0
    step: int = 0

    @property
    def tokens(self) -> int:
        """T"""
        return self.layout.total

    @property
    def order(self) -> Tensor:
        """(S,): the sequence, counted through the examples, at each place of the layout."""
        return torch.argsort(self.places)

    def noise(self) -> SequenceNoise:
        """Return the streams of dropout, in the layout's order."""
        rows = self.order.cpu().numpy()
        return SequenceNoise.for_step(self.seed, self.step, DROPOUT_STREAM, rows, np.zeros_like(rows))

    def to(self, device: torch.device | str) -> TaskBatch:
        """Return the same batch with its tensors on `device`."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return replace(
            self,
            layout=self.layout.to(device),
            input_ids=moved(self.input_ids),
            type_ids=moved(self.type_ids),
            mentions=None if self.mentions is None else moved(self.mentions),
            features=None if self.features is None else moved(self.features),
            places=moved(self.places),
            targets={name: moved(tensor) for name, tensor in self.targets.items()},
        )


LookUp = Callable[[Sequence[TokenSequence]], Sequence[TokenSequence]]
"""Function that adds mentions or features to sequences (`TaskEncoder.look_up`)."""


def pack(examples: Sequence[HeadExample], *, seed: int, step: int, look_up: LookUp | None = None) -> TaskBatch:
    """Lay the examples' sequences end to end, the shortest first, without targets.

    Raises ValueError if only some of the sequences have features.
    """
    given: Sequence[TokenSequence] = [sequence for example in examples for sequence in example.sequences]
    sequences = given if look_up is None else look_up(given)
    order = np.argsort([len(sequence.input_ids) for sequence in sequences], kind="stable")
    in_order = [sequences[i] for i in order]
    layout = Layout.from_lengths([len(sequence.input_ids) for sequence in in_order])
    return TaskBatch(
        layout=layout,
        input_ids=_joined([sequence.input_ids for sequence in in_order]),
        type_ids=_joined([sequence.type_ids for sequence in in_order]),
        mentions=_packed_mentions(in_order),
        features=_packed_features(in_order),
        places=torch.from_numpy(np.argsort(order)),
        counts=tuple(len(example.sequences) for example in examples),
        seed=seed,
        step=step,
    )


def check_sequence(sequence: TokenSequence, vocab_size: int, type_vocab_size: int, max_positions: int) -> None:
    """Raise ValueError with a remedy if an encoder of these sizes cannot read the sequence."""
    ids, types = np.asarray(sequence.input_ids), np.asarray(sequence.type_ids)
    if ids.ndim != 1 or ids.shape != types.shape:
        raise ValueError(f"input_ids of shape {ids.shape} and type_ids of shape {types.shape} must both be (L,)")
    if len(ids) < 2:
        raise ValueError(f"a sequence must hold at least [CLS] and [SEP], this one has {len(ids)} tokens")
    if len(ids) > max_positions:
        raise ValueError(
            f"a sequence of {len(ids)} tokens is longer than the encoder's {max_positions} positions; "
            "cut it, or split it into windows if tokens are tagged"
        )
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(
            f"token ids range from {ids.min()} to {ids.max()}, but the encoder's vocabulary from 0 to "
            f"{vocab_size - 1}; use the tokenizer that belongs to the encoder"
        )
    if types.min() < 0 or types.max() >= type_vocab_size:
        raise ValueError(f"type ids must be between 0 and {type_vocab_size - 1}, got {types.min()} to {types.max()}")
    if sequence.mentions is not None:
        _check_mentions(np.asarray(sequence.mentions), len(ids))
    if sequence.features is not None and (np.ndim(sequence.features) != 2 or len(sequence.features) != len(ids)):
        raise ValueError(
            f"features of shape {np.shape(sequence.features)} must be (L, F), with a row for each of {len(ids)} tokens"
        )


def _check_mentions(mentions: np.ndarray, length: int) -> None:
    if mentions.ndim != 2 or mentions.shape[1] != MENTION_FIELDS:
        raise ValueError(f"mentions of shape {mentions.shape} must be (N, {MENTION_FIELDS})")
    starts, ends = mentions[:, 0], mentions[:, 1]
    if ((starts < 0) | (starts >= ends) | (ends > length)).any():
        raise ValueError(f"mentions must begin before they end and lie within 0 to {length}, the sequence's tokens")


def _packed_mentions(sequences: Sequence[TokenSequence]) -> Tensor | None:
    """Mentions of all sequences, which follow each other in the batch."""
    if all(sequence.mentions is None for sequence in sequences):
        return None
    start = 0
    parts = [np.empty((0, MENTION_FIELDS), dtype=np.int64)]
    for sequence in sequences:
        if sequence.mentions is not None:
            parts.append(np.asarray(sequence.mentions, dtype=np.int64) + np.array([start, start, 0, 0]))
        start += len(sequence.input_ids)
    return torch.from_numpy(np.concatenate(parts))


def _packed_features(sequences: Sequence[TokenSequence]) -> Tensor | None:
    parts = [np.asarray(s.features, dtype=np.float32) for s in sequences if s.features is not None]
    if len(parts) not in (0, len(sequences)):
        raise ValueError(f"{len(parts)} of {len(sequences)} sequences have features; a batch needs all or none")
    return torch.from_numpy(np.concatenate(parts)) if parts else None


def _joined(parts: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.int64, copy=False))
