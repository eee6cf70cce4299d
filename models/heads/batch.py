"""Packed batch of a head's examples.

Sequences are sorted by length, so that equal lengths form long runs (models/encoder/layout.py); `TaskBatch.places`
finds each one again. Dropout is keyed by an example's place in the batch, so sorting changes nothing.

Shape legend: E examples, S sequences (S = E except for multiple choice), T tokens laid end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.heads.examples import HeadExample, TokenSequence

DROPOUT_STREAM = 1001
"""Purpose of dropout's draws in fine-tuning; far from pre-training's `randomness.Stream`."""


@dataclass(frozen=True)
class TaskBatch:
    """A packed batch. Tensors are int64 unless stated otherwise."""

    layout: Layout
    """S sequences, the shortest first."""
    input_ids: Tensor
    """(T,)"""
    type_ids: Tensor
    """(T,)"""
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
        return replace(
            self,
            layout=self.layout.to(device),
            input_ids=self.input_ids.to(device, non_blocking=True),
            type_ids=self.type_ids.to(device, non_blocking=True),
            places=self.places.to(device, non_blocking=True),
            targets={name: tensor.to(device, non_blocking=True) for name, tensor in self.targets.items()},
        )


def pack(examples: Sequence[HeadExample], *, seed: int, step: int) -> TaskBatch:
    """Lay the examples' sequences end to end, the shortest first, without targets."""
    sequences = [sequence for example in examples for sequence in example.sequences]
    order = np.argsort([len(sequence.input_ids) for sequence in sequences], kind="stable")
    return TaskBatch(
        layout=Layout.from_lengths([len(sequences[i].input_ids) for i in order]),
        input_ids=_joined([sequences[i].input_ids for i in order]),
        type_ids=_joined([sequences[i].type_ids for i in order]),
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


def _joined(parts: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.int64, copy=False))
