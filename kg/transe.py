"""TransE (Bordes et al. 2013, "Translating Embeddings for Modeling Multi-relational Data"): h + r ≈ t.

It gives TransR its initial vectors, as in Lin et al. 2015 (section 4.3). Its vectors therefore obey the limits of
TransR, ‖h‖, ‖r‖, ‖t‖ ≤ 1, from the start. Bordes et al. keep entities at length 1 and let relations grow; TransR would
shorten a relation that has grown beyond 1 and lose what TransE has learned.

Shape legend: E entities, R relations, D width.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from kg.embedding.batches import TrainingBatch
from kg.embedding.gradients import RowGradient
from kg.embedding.limits import Limit, short_rows
from kg.embedding.loss import MarginLoss, PlacedBatch
from kg.embedding.start import first_entities, first_relations


class TransE(nn.Module):
    """Entities (E, D) and relations (R, D), float32; initialised from the seed by kg/embedding/start.py."""

    limits: Mapping[str, Limit] = {"entities": short_rows, "relations": short_rows}
    """Constraints after each step: neither entities nor relations are longer than 1."""

    def __init__(self, num_entities: int, num_relations: int, dim: int, *, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.entities = nn.Parameter(first_entities(num_entities, dim, generator))
        self.relations = nn.Parameter(first_relations(num_relations, dim, generator))

    def distance(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """‖h + r − t‖₂ for int64 numbers of equal shape; differentiable."""
        return torch.linalg.vector_norm(self.entities[h] + self.relations[r] - self.entities[t], dim=-1)

    def score(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """−`distance`: higher is more likely."""
        return -self.distance(h, r, t)

    def points(self, relation: int) -> Tensor:
        """(E, D): all entities as they are in triples of this relation."""
        return self.entities.detach()

    def translation(self, relation: int) -> Tensor:
        """(D,): the vector from a head's point to its tail's."""
        return self.relations.detach()[relation]

    @torch.no_grad()
    def gradients(
        self, batch: TrainingBatch, loss: MarginLoss, *, scale: float
    ) -> tuple[Tensor, dict[str, RowGradient]]:
        """`scale` × the summed loss of a batch and its gradient by parameter. Time grows with B·K·D."""
        placed = PlacedBatch.of(batch, lambda entities, relations: entities)
        entities, relations, triples = (
            torch.from_numpy(numbers).to(self.entities.device)
            for numbers in (placed.points, placed.relations, placed.triples)
        )
        table = torch.cat([self.entities[entities], self.relations[relations]])
        value, gradient = loss.gradient(table, triples, len(batch), scale=scale)
        split = int((gradient.rows < len(entities)).sum())
        return value, {
            "entities": RowGradient(entities[gradient.rows[:split]], gradient.values[:split]),
            "relations": RowGradient(relations[gradient.rows[split:] - len(entities)], gradient.values[split:]),
        }

    def touched(self, batch: TrainingBatch) -> dict[str, np.ndarray]:
        """Ascending rows of each parameter that `gradients` of this batch, or of a share of it, may contain."""
        return touched_rows(batch)


def touched_rows(batch: TrainingBatch) -> dict[str, np.ndarray]:
    """Return the entities and the relations in a batch, ascending."""
    given = batch.positives
    return {
        "entities": np.unique(np.concatenate([given.heads, given.tails, batch.entities.ravel()])),
        "relations": np.unique(given.relations),
    }
