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

from models.encoder.layout import Layout
from models.heads.batch import TaskBatch
from models.heads.encoders import AnyEncoder
from models.heads.examples import HeadExample
from models.heads.multi_similarity import MultiSimilarityConfig, multi_similarity_loss
from models.heads.task_model import TaskModel

POOLINGS = ("mean", "cls")
"""How states become a vector: the mean over the tokens between [CLS] and [SEP], or the state of [CLS]."""


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
        """`pooling`: one of `POOLINGS`; the others as in `MultiSimilarityConfig`. Raises ValueError naming a value."""
        super().__init__(encoder, dropout=dropout)
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
        self.pooling = pooling
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
        if self.pooling == "cls":
            pooled_SD = self.encode_first(batch)
        else:
            pooled_SD = mean_states(self.encode(batch), batch.layout)[batch.places]
        return F.normalize(pooled_SD.float(), dim=1)

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return the vectors of each example's names, float32 (n, D)."""
        return [part.cpu().numpy() for part in self.vectors(batch).split(list(batch.counts))]


def mean_states(states_TD: Tensor, layout: Layout) -> Tensor:
    """Return the mean state (S, D) of each sequence without its first and last token; zeros if nothing is left."""
    offsets = layout.offsets.long()
    lengths_S = offsets.diff()
    owner_T = torch.repeat_interleave(lengths_S, output_size=layout.total)
    inner_T = torch.ones_like(owner_T, dtype=states_TD.dtype)
    inner_T[offsets[:-1]] = 0.0
    inner_T[offsets[1:] - 1] = 0.0
    sums_SD = states_TD.new_zeros(len(lengths_S), states_TD.shape[1])
    sums_SD = sums_SD.index_add(0, owner_T, states_TD * inner_T[:, None])
    return sums_SD / (lengths_S - 2).clamp_min(1)[:, None]
