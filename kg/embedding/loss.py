"""Margin ranking loss of translational embeddings, with its gradient written out.

Every triple is h + r − t over a table of vectors that the model has prepared: entities (TransE), or entities in the
relation's space (TransR), followed by the relations. Only triples that violate the margin have a gradient; late in
training they are few, and the backward pass gets cheaper with them. Writing it out instead of using autograd needs no
graph, no dense gradients and only one pass over the rows.

Shape legend: B positives, K negatives of each, V rows of the table, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from kg.embedding.batches import TrainingBatch
from kg.embedding.gradients import RowGradient, sum_rows


@dataclass(frozen=True, kw_only=True)
class MarginLoss:
    """max(0, margin + f(positive) − f(negative)), with f = ‖h + r − t‖₂², or ‖h + r − t‖₂.

    The square is Lin et al. 2015, Eq. 8; the plain norm is SMedBERT's Eq. 14. Both rank entities alike.
    """

    margin: float = 1.0
    squared: bool = True

    def distances(self, differences: Tensor) -> Tensor:
        """f of each row of h + r − t, (N, D) → (N,)."""
        squares = torch.linalg.vecdot(differences, differences)
        return squares if self.squared else squares.sqrt()

    def gradient(self, table: Tensor, triples: Tensor, positives: int, *, scale: float) -> tuple[Tensor, RowGradient]:
        """`scale` × the sum of the loss over all pairs of a positive and its negative, and its gradient by the table.

        table (V, D); triples int64 (B + B·K, 3) of rows (head, relation, tail), the `positives` (B) first.
        The subgradient of the plain norm at 0 is 0.
        """
        signs = torch.tensor([1.0, 1.0, -1.0]).to(table)
        differences = embedding_bag(
            triples, table, mode="sum", per_sample_weights=signs.expand(len(triples), 3).contiguous()
        )
        f = self.distances(differences)
        slack = (self.margin + f[:positives, None] - f[positives:].view(positives, -1)).clamp_(min=0)
        # A positive counts once for each of its violated pairs, each negative at most once, with the opposite sign.
        active = (slack > 0).to(table.dtype)
        weights = torch.cat([active.sum(1), -active.ravel()]) * scale
        used = weights.nonzero().squeeze(1)
        factors = 2 * weights[used] if self.squared else weights[used] / f[used].clamp(min=torch.finfo(f.dtype).tiny)
        slopes = differences.index_select(0, used) * factors[:, None]
        places = torch.arange(len(used), device=table.device).repeat_interleave(3)
        return slack.sum() * scale, sum_rows(slopes, places, triples[used].ravel(), signs.repeat(len(used)))


@dataclass(frozen=True)
class PlacedBatch:
    """A batch whose triples are numbers of rows in the table that its model prepares: points, then relations."""

    points: np.ndarray
    """int64 (P,), ascending, distinct: keys of the points that the model prepares."""
    relations: np.ndarray
    """int64 (L,), ascending, distinct."""
    triples: np.ndarray
    """int64 (B + B·K, 3): row of the head's point, of the relation and of the tail's point; positives first."""

    @classmethod
    def of(cls, batch: TrainingBatch, key: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> PlacedBatch:
        """Place a batch; `key(entities, relations)` is the key of an entity's point in a triple of a relation."""
        given, corrupted = batch.positives, batch.negatives()
        heads = np.concatenate([given.heads, corrupted.heads])
        tails = np.concatenate([given.tails, corrupted.tails])
        of_triple = np.concatenate([given.relations, corrupted.relations])
        keys = np.concatenate([key(heads, of_triple), key(tails, of_triple)])
        points, places = np.unique(keys, return_inverse=True)
        relations, names = np.unique(of_triple, return_inverse=True)
        triples = np.stack([places[: len(heads)], len(points) + names, places[len(heads) :]], 1)
        return cls(points, relations, triples)
