"""Vectors of names: an encoder whose pooled states are aligned by concept (SapBERT, section 3).

Shape legend: E examples, S sequences, T tokens laid end to end, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.heads.batch import TaskBatch
from models.heads.encoders import AnyEncoder
from models.heads.examples import HeadExample
from models.heads.multi_similarity import MultiSimilarityConfig, multi_similarity_loss
from models.heads.pooling import check_pooling
from models.heads.task_model import TaskModel


class Alignment(TaskModel):
    """Unit vectors of names; those of one concept are trained to be close.

    It has only the parameters of its encoder. An example is a few names: synonyms, and others that are not. All names
    of a batch are compared with each other.
    """

    name = "alignment"
    sequences_per_example: ClassVar[int | None] = None

    def __init__(
        self,
        encoder: AnyEncoder,
        *,
        pooling: str = "mean",
        dropout: float = 0.0,
        margin: float = MultiSimilarityConfig.margin,
        negative_scale: float = MultiSimilarityConfig.negative_scale,
        positive_scale: float = MultiSimilarityConfig.positive_scale,
        offset: float = MultiSimilarityConfig.offset,
    ) -> None:
        """`pooling`: see models/heads/pooling.py; the others as in `MultiSimilarityConfig`.

        Raises ValueError naming a value.
        """
        super().__init__(encoder, dropout=dropout)
        self.pooling = check_pooling(pooling)
        self.loss = MultiSimilarityConfig(
            margin=margin, negative_scale=negative_scale, positive_scale=positive_scale, offset=offset
        )

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"pooling": self.pooling, "dropout": self.dropout, **asdict(self.loss)}

    def check_target(self, example: HeadExample) -> None:
        """Check that each name has a concept: a whole number."""
        concepts = np.asarray(example.target)
        if concepts.shape != (len(example.sequences),) or not np.issubdtype(concepts.dtype, np.integer):
            raise ValueError(f"{len(example.sequences)} names need as many concepts, got {example.target!r}")

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """concepts: int64 (S,), in the examples' order."""
        return {"concepts": torch.from_numpy(np.concatenate([example.target for example in examples]).astype(np.int64))}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return the multi-similarity loss of all names of the batch."""
        concepts_S = self.targets(batch, "concepts")
        return {"loss": multi_similarity_loss(self.vectors(batch), concepts_S, self.loss)}

    def vectors(self, batch: TaskBatch) -> Tensor:
        """Return unit vectors float32 (S, D), in the examples' order; zeros for the mean of a name without tokens."""
        return F.normalize(self.pooled_states(batch, self.pooling).float(), dim=1)

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return the vectors of each example's names, float32 (n, D)."""
        return [part.cpu().numpy() for part in self.vectors(batch).split(list(batch.counts))]
