"""Heads on one state of a sequence: dropout, then one dense layer (eHealth, appendix E).

The state is that of [CLS], or the mean of the tokens behind it (`pooling`).

Shape legend: E examples, S sequences, D hidden size, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.linear import Linear
from models.heads.batch import TaskBatch
from models.heads.encoders import AnyEncoder
from models.heads.examples import HeadExample
from models.heads.pooling import check_pooling
from models.heads.task_model import TaskModel, check_num_labels, softmax_numpy
from models.weights.task_heads import TransformersHead, multiple_choice, sequence_classifier


class _SequenceHead(TaskModel):
    """A dense layer on one state of each sequence."""

    problem_type: ClassVar[str | None] = None
    """How transformers' pipelines read the logits; None: a single logit."""

    def __init__(self, encoder: AnyEncoder, outputs: int, *, dropout: float, pooling: str) -> None:
        """`pooling`: one of `POOLINGS`. Raises ValueError for another."""
        super().__init__(encoder, dropout=dropout)
        self.pooling = check_pooling(pooling)
        self.classifier = Linear(self.sizes.hidden_size, outputs)
        self.initialise_head()

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"dropout": self.dropout, "pooling": self.pooling}

    def logits(self, batch: TaskBatch) -> Tensor:
        """Return float32 (S, outputs), in the examples' order."""
        return self.classifier(self.pooled_states(batch, self.pooling)).float()

    @property
    def form(self) -> str:
        """See `TaskModel.form`."""
        return self.name if self.pooling == "cls" else f"{self.name}-{self.pooling}"

    def transformers_head(self) -> TransformersHead | None:
        """See `TaskModel.transformers_head`; its classes read [CLS]."""
        return sequence_classifier(self.classifier, self.dropout, self.problem_type) if self.pooling == "cls" else None


class _LabelHead(_SequenceHead):
    """A head with an output per label, which may have weights in the loss."""

    num_labels: int
    label_weights: Tensor | None = None
    """Float32 (C,); None: all labels count alike."""

    def weigh_labels(self, weights: Sequence[float]) -> None:
        """See `TaskModel.weigh_labels`."""
        if len(weights) != self.num_labels or not all(weight > 0.0 for weight in weights):
            raise ValueError(f"{self.num_labels} labels need as many positive weights, got {list(weights)}")
        self.label_weights = torch.tensor(weights, dtype=torch.float32)

    def _weights_C(self, logits_EC: Tensor) -> Tensor | None:
        return None if self.label_weights is None else self.label_weights.to(logits_EC.device)


class Single(_LabelHead):
    """Softmax over C classes of one text."""

    name = "single"
    problem_type = "single_label_classification"

    def __init__(self, encoder: AnyEncoder, *, num_labels: int, dropout: float = 0.1, pooling: str = "cls") -> None:
        self.num_labels = check_num_labels(num_labels, self.name)
        super().__init__(encoder, num_labels, dropout=dropout, pooling=pooling)

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"num_labels": self.num_labels, **super().config()}

    def check_target(self, example: HeadExample) -> None:
        """Check a class from 0 to C - 1."""
        check_class(example.target, self.num_labels)

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """classes: int64 (E,)"""
        return {"classes": torch.tensor([int(example.target) for example in examples])}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean cross entropy, weighted by `label_weights` if there are any."""
        logits_EC = self.logits(batch)
        return {"loss": F.cross_entropy(logits_EC, self.targets(batch, "classes"), self._weights_C(logits_EC))}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return probabilities float32 (C,) per example."""
        return list(softmax_numpy(self.logits(batch)))


class Pair(Single):
    """Softmax over C classes of two texts in one sequence, [CLS] S1 [SEP] S2 [SEP]."""

    name = "pair"


class MultiLabel(_LabelHead):
    """C independent yes-or-no questions about one text."""

    name = "multi_label"
    problem_type = "multi_label_classification"

    def __init__(self, encoder: AnyEncoder, *, num_labels: int, dropout: float = 0.1, pooling: str = "cls") -> None:
        self.num_labels = check_num_labels(num_labels, self.name)
        super().__init__(encoder, num_labels, dropout=dropout, pooling=pooling)

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"num_labels": self.num_labels, **super().config()}

    def check_target(self, example: HeadExample) -> None:
        """Check zeros and ones, (C,)."""
        values = np.asarray(example.target)
        if values.shape != (self.num_labels,) or not np.isin(values, (0, 1)).all():
            raise ValueError(f"the target must hold {self.num_labels} numbers, each 0 or 1, got {example.target!r}")

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """labels: float32 (E, C)"""
        rows = np.stack([np.asarray(example.target, dtype=np.float32) for example in examples])
        return {"labels": torch.from_numpy(rows)}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean binary cross entropy over examples and labels; given labels count by `label_weights`."""
        logits_EC, labels_EC = self.logits(batch), self.targets(batch, "labels")
        loss = F.binary_cross_entropy_with_logits(logits_EC, labels_EC, pos_weight=self._weights_C(logits_EC))
        return {"loss": loss}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return independent probabilities float32 (C,) per example."""
        return list(torch.sigmoid(self.logits(batch)).cpu().numpy())


class Ranking(_SequenceHead):
    """One score for a question with a candidate, [CLS] question [SEP] candidate [SEP], trained as right or wrong."""

    name = "ranking"

    def __init__(self, encoder: AnyEncoder, *, dropout: float = 0.1, pooling: str = "cls") -> None:
        super().__init__(encoder, 1, dropout=dropout, pooling=pooling)

    def check_target(self, example: HeadExample) -> None:
        """Check 1 for a right candidate or 0 for a wrong one."""
        check_class(example.target, 2)

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """right: float32 (E,)"""
        return {"right": torch.tensor([float(example.target) for example in examples])}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean binary cross entropy."""
        return {"loss": F.binary_cross_entropy_with_logits(self.logits(batch)[:, 0], self.targets(batch, "right"))}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return the log-odds of being right, a float per example."""
        return self.logits(batch)[:, 0].tolist()


class Choice(_SequenceHead):
    """Multiple choice: one sequence per option, [CLS] option [SEP] question [SEP] text [SEP] (eHealth, appendix E).

    Each is judged right or wrong, and the most probable one is the answer. Examples may differ in their number of
    options.
    """

    name = "choice"
    sequences_per_example = None

    def __init__(self, encoder: AnyEncoder, *, dropout: float = 0.1, pooling: str = "cls") -> None:
        super().__init__(encoder, 1, dropout=dropout, pooling=pooling)

    def transformers_head(self) -> TransformersHead | None:
        """See `TaskModel.transformers_head`; its class reads [CLS]."""
        return multiple_choice(self.classifier, self.dropout) if self.pooling == "cls" else None

    def check_target(self, example: HeadExample) -> None:
        """Check the number of the right option, from 0."""
        check_class(example.target, len(example.sequences))

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """right: float32 (S,)"""
        right = torch.zeros(sum(batch.counts))
        firsts = np.cumsum((0, *batch.counts[:-1]))  # an example's options follow each other
        right[torch.from_numpy(firsts + [int(example.target) for example in examples])] = 1.0
        return {"right": right}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the mean binary cross entropy over all options."""
        return {"loss": F.binary_cross_entropy_with_logits(self.logits(batch)[:, 0], self.targets(batch, "right"))}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return each option's probability of being right, float32 (number of options,) per example."""
        probabilities = torch.sigmoid(self.logits(batch)[:, 0]).cpu()
        return [part.numpy() for part in probabilities.split(batch.counts)]


def check_class(target: Any, classes: int) -> None:
    """Raise ValueError unless `target` is a whole number from 0 to `classes` - 1."""
    whole = isinstance(target, int | np.integer) and not isinstance(target, bool)
    if not whole or not 0 <= target < classes:
        raise ValueError(f"the target must be a whole number from 0 to {classes - 1}, got {target!r}")
