"""Heads that tag every token: one stream, by softmax or CRF, and two streams for nested entities.

Shape legend: S sequences, T tokens laid end to end, L tokens of one sequence, D hidden size, C tags.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.linear import Linear
from models.heads.batch import TaskBatch
from models.heads.encoders import AnyEncoder
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel, check_num_labels
from models.networks.parts.crf import UNLABELLED, ConditionalRandomField
from models.weights.task_heads import TransformersHead, token_classifier


class OneStream(TaskModel):
    """One tag per token: a softmax each, or a CRF over the tokens between [CLS] and [SEP]."""

    name = "tagging"
    num_labels: int
    """C, including the tag for "outside"."""

    @property
    @abstractmethod
    def transitions(self) -> ConditionalRandomField | None:
        """The CRF; None for a softmax over each token's tags."""

    @abstractmethod
    def emissions(self, batch: TaskBatch) -> Tensor:
        """Return the scores of each token's tags, float32 (T, C), in the layout's order."""

    def check_target(self, example: HeadExample) -> None:
        """Check int (L,): tags from 0 to C - 1, or -100; a CRF ignores [CLS] and [SEP]."""
        check_tags(example.target, len(example.sequences[0].input_ids), self.num_labels)

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """tags: int64 (T,)"""
        return {"tags": packed_tags([example.target for example in examples], batch)}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean cross entropy over labelled tokens.

        With a CRF it is the sum of each sequence's -log p(tags) over labelled tokens, so that both have the same scale.
        """
        logits_TC, tags_T, crf = self.emissions(batch), self.targets(batch, "tags"), self.transitions
        if crf is None:
            return {"loss": mean_cross_entropy(logits_TC, tags_T)}
        inner, layout = _between_ends(batch.layout)
        labelled = (tags_T[inner] != UNLABELLED).sum().clamp(min=1)
        if layout is None:
            return {"loss": logits_TC.sum() * 0.0}  # no token to learn from, but a gradient for DDP: zeros
        return {"loss": -crf.log_likelihood(logits_TC[inner], tags_T[inner], layout).sum() / labelled}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return tags int64 (L,) per example; -100 on [CLS] and [SEP]."""
        logits_TC, crf = self.emissions(batch), self.transitions
        if crf is None:
            return split_tags(logits_TC.argmax(1), batch)
        inner, layout = _between_ends(batch.layout)
        tags_T = torch.full_like(batch.input_ids, UNLABELLED)
        if layout is not None:
            tags_T[inner] = crf.viterbi(logits_TC[inner], layout)
        return split_tags(tags_T, batch)


class Tagging(OneStream):
    """A dense layer on each token, with or without a CRF."""

    def __init__(self, encoder: AnyEncoder, *, num_labels: int, crf: bool = False, dropout: float = 0.1) -> None:
        """`num_labels`: C, including the tag for "outside"."""
        super().__init__(encoder, dropout=dropout)
        self.num_labels = check_num_labels(num_labels, self.name)
        self.classifier = Linear(self.sizes.hidden_size, num_labels)
        self.crf = ConditionalRandomField(num_labels) if crf else None
        self.initialise_head()

    @property
    def transitions(self) -> ConditionalRandomField | None:
        """See `OneStream.transitions`."""
        return self.crf

    def emissions(self, batch: TaskBatch) -> Tensor:
        """See `OneStream.emissions`."""
        return self.classifier(self.encode(batch)).float()

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"num_labels": self.num_labels, "crf": self.crf is not None, "dropout": self.dropout}

    def transformers_head(self) -> TransformersHead | None:
        """See `TaskModel.transformers_head`: a tagger without CRF."""
        return None if self.crf is not None else token_classifier(self.classifier, self.dropout)

    @property
    def form(self) -> str:
        """See `TaskModel.form`."""
        return self.name if self.crf is None else f"{self.name}-crf"


class TwoStream(TaskModel):
    """Two softmax taggers on one encoder (eHealth, appendix E).

    One is for the entity type that others may be nested in, one for the other types. For CMeEE: symptoms with 5 tags,
    and 8 types with 33.
    """

    name = "two_stream"

    def __init__(self, encoder: AnyEncoder, *, num_labels: Sequence[int] = (5, 33), dropout: float = 0.1) -> None:
        """`num_labels`: tags of the first and of the second stream, "outside" included."""
        super().__init__(encoder, dropout=dropout)
        if isinstance(num_labels, int) or len(num_labels) != 2:
            raise ValueError(f"head 'two_stream' needs two num_labels, one per stream, got {num_labels!r}")
        self.num_labels = tuple(check_num_labels(number, self.name) for number in num_labels)
        self.classifiers = torch.nn.ModuleList(Linear(self.sizes.hidden_size, n) for n in self.num_labels)
        self.initialise_head()

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"num_labels": list(self.num_labels), "dropout": self.dropout}

    def check_target(self, example: HeadExample) -> None:
        """Check int (2, L): each row as in `Tagging`."""
        length = len(example.sequences[0].input_ids)
        if np.shape(example.target) != (2, length):
            raise ValueError(f"the target must have shape (2, {length}), got {np.shape(example.target)}")
        for tags, number in zip(example.target, self.num_labels, strict=True):
            check_tags(tags, length, number)

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """first, second: int64 (T,)"""
        return {
            name: packed_tags([example.target[stream] for example in examples], batch)
            for stream, name in enumerate(("first", "second"))
        }

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean cross entropies of the two streams, and their sum as the loss."""
        hidden_TD = self.encode(batch)
        first, second = (
            mean_cross_entropy(classifier(hidden_TD).float(), self.targets(batch, name))
            for classifier, name in zip(self.classifiers, ("first", "second"), strict=True)
        )
        return {"loss": first + second, "first": first, "second": second}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return tags int64 (2, L) per example; -100 on [CLS] and [SEP]."""
        hidden_TD = self.encode(batch)
        streams = [split_tags(classifier(hidden_TD).argmax(1), batch) for classifier in self.classifiers]
        return [np.stack(pair) for pair in zip(*streams, strict=True)]


def check_tags(target: Any, length: int, num_labels: int) -> None:
    """Raise ValueError unless `target` is int (length,) of tags below `num_labels` or -100."""
    tags = np.asarray(target)
    if tags.shape != (length,) or not np.issubdtype(tags.dtype, np.integer):
        raise ValueError(f"the target must hold a tag for each of {length} tokens, got {tags.dtype} {tags.shape}")
    wrong = tags[(tags != UNLABELLED) & ((tags < 0) | (tags >= num_labels))]
    if len(wrong):
        raise ValueError(f"tags must be between 0 and {num_labels - 1}, or {UNLABELLED}, got {wrong[0]}")


def packed_tags(targets: Sequence[Any], batch: TaskBatch) -> Tensor:
    """Return the examples' tags in the layout's order, int64 (T,)."""
    parts = [np.asarray(targets[i], dtype=np.int64) for i in batch.order.tolist()]
    return torch.from_numpy(np.concatenate(parts))


def split_tags(tags_T: Tensor, batch: TaskBatch) -> list[np.ndarray]:
    """Return each example's tags, int64 (L,), with -100 on [CLS] and [SEP], in the examples' order."""
    offsets = batch.layout.offsets.long()
    tags_T = tags_T.clone()
    tags_T[offsets[:-1]] = UNLABELLED
    tags_T[offsets[1:] - 1] = UNLABELLED
    parts = [part.numpy() for part in tags_T.cpu().split(batch.layout.lengths)]
    return [parts[place] for place in batch.places.tolist()]


def mean_cross_entropy(logits_TC: Tensor, tags_T: Tensor) -> Tensor:
    """Return the mean over the labelled tokens; 0 if there are none."""
    total = F.cross_entropy(logits_TC, tags_T, ignore_index=UNLABELLED, reduction="sum")
    return total / (tags_T != UNLABELLED).sum().clamp(min=1)


def _between_ends(layout: Layout) -> tuple[Tensor, Layout | None]:
    """Mask bool (T,) of the tokens between [CLS] and [SEP], and their layout; None if there are none."""
    offsets = layout.offsets.long()
    inner = torch.ones(layout.total, dtype=torch.bool, device=offsets.device)
    inner[offsets[:-1]] = False
    inner[offsets[1:] - 1] = False
    lengths = [length - 2 for length in layout.lengths if length > 2]
    return inner, Layout.from_lengths(lengths).to(offsets.device) if lengths else None
