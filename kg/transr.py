"""TransR (Lin et al. 2015, "Learning Entity and Relation Embeddings for Knowledge Graph Completion"): one space for
entities, and one per relation, into which a matrix projects them and where the relation is a translation.

    distance(h, r, t) = ‖c(h M_r) + r − c(t M_r)‖₂

SMedBERT's Eq. 14 is ‖h M_r + r − t M_r‖, without c. c shortens a vector longer than 1 to length 1: it is TransR's own
constraint, ‖h M_r‖ ≤ 1 and ‖t M_r‖ ≤ 1 (Lin et al., below their Eq. 8), held by construction. Where both ends obey it,
the two formulas agree. Lin et al.'s other constraints, ‖h‖, ‖t‖, ‖r‖ ≤ 1, are held after each step.

A batch has few relations, and the same entity many times in the same relation. So each distinct (relation, entity)
is projected once, those of one relation by one product. This avoids the (B, D, K) gather of matrices that makes a naive
TransR slow. The gradient is written out by hand and contains only the touched rows.

Shape legend: E entities, R relations, D entity width, K relation width, P distinct (relation, entity) of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from kg.embedding.batches import TrainingBatch
from kg.embedding.gradients import RowGradient, sum_rows
from kg.embedding.limits import Limit, short_rows
from kg.embedding.loss import MarginLoss, PlacedBatch
from kg.embedding.start import first_entities, first_relations
from kg.transe import TransE, touched_rows


class TransR(nn.Module):
    """Entities (E, D), relations (R, K) and projections (R, D, K), float32.

    Entities and relations are initialised from the seed by kg/embedding/start.py. Projections start as the identity
    (cut or padded with zeros where the widths differ), with which TransR equals TransE.

    Memory: 4 bytes × (E·D + R·K + R·D·K).

    Raises:
        ValueError: a size is less than 1.
    """

    limits: Mapping[str, Limit] = {"entities": short_rows, "relations": short_rows}
    """Constraints after each step: neither entities nor relations are longer than 1."""

    def __init__(
        self, num_entities: int, num_relations: int, entity_dim: int, relation_dim: int, *, seed: int = 0
    ) -> None:
        super().__init__()
        sizes = {
            "num_entities": num_entities,
            "num_relations": num_relations,
            "entity_dim": entity_dim,
            "relation_dim": relation_dim,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} is {size}; it must be at least 1")
        generator = torch.Generator().manual_seed(seed)
        identity = torch.eye(entity_dim, relation_dim)
        self.entities = nn.Parameter(first_entities(num_entities, entity_dim, generator))
        self.relations = nn.Parameter(first_relations(num_relations, relation_dim, generator))
        self.projections = nn.Parameter(identity.repeat(num_relations, 1, 1))

    @classmethod
    @torch.no_grad()
    def from_transe(cls, transe: TransE, relation_dim: int) -> TransR:
        """Return a TransR that starts from a TransE (section 4.3 of the paper); relations are cut or padded with zeros.

        If they are not cut and the TransE obeys its limits, all distances are those of the TransE.
        """
        (num_entities, dim), num_relations = transe.entities.shape, len(transe.relations)
        model = cls(num_entities, num_relations, dim, relation_dim).to(transe.entities.device)
        model.entities.copy_(short_rows(transe.entities))
        model.relations.copy_(short_rows(transe.relations @ model.projections[0]))
        return model

    def distance(
        self, h: Tensor | np.ndarray | int, r: Tensor | np.ndarray | int, t: Tensor | np.ndarray | int
    ) -> Tensor:
        """‖c(h M_r) + r − c(t M_r)‖₂ for numbered triples, whose shapes broadcast; differentiable.

        Time grows with the triples × D·K, memory with the triples × (D + K).

        Raises:
            IndexError: a number is outside its table.
        """
        device = self.entities.device
        heads, relations, tails = torch.broadcast_tensors(*(torch.as_tensor(one, device=device) for one in (h, r, t)))
        if min(int(one.min()) if one.numel() else 0 for one in (heads, relations, tails)) < 0:
            raise IndexError("entities and relations are numbered from 0; a number is negative")
        # Sorted by relation, so that each relation's matrix is used in one product over a run of rows.
        order = torch.argsort(relations.ravel(), stable=True)
        heads_N, relations_N, tails_N = (one.ravel()[order] for one in (heads, relations, tails))
        ends_N2D = self.entities[torch.stack([heads_N, tails_N], 1)]
        points_N2K = torch.cat(
            [
                ends_N2D[:0].new_empty(0, 2, self.relations.shape[1]),
                *(ends_N2D[start:end] @ self.projections[r] for r, start, end in _runs(relations_N)),
            ]
        )
        points_N2K = short_rows(points_N2K)
        differences = points_N2K[:, 0] + self.relations[relations_N] - points_N2K[:, 1]
        distances = torch.linalg.vector_norm(differences, dim=-1)
        return distances[torch.argsort(order)].view(relations.shape)

    def score(self, h: Tensor | np.ndarray | int, r: Tensor | np.ndarray | int, t: Tensor | np.ndarray | int) -> Tensor:
        """−`distance`: higher is more likely."""
        return -self.distance(h, r, t)

    @torch.no_grad()
    def points(self, relation: int) -> Tensor:
        """(E, K): all entities projected by this relation, c(e M_r). Time grows with E·D·K."""
        return short_rows(self.entities @ self.projections[relation])

    def translation(self, relation: int) -> Tensor:
        """(K,): the vector from a head's point to its tail's."""
        return self.relations.detach()[relation]

    @torch.no_grad()
    def gradients(
        self, batch: TrainingBatch, loss: MarginLoss, *, scale: float
    ) -> tuple[Tensor, dict[str, RowGradient]]:
        """`scale` × the summed loss of a batch and its gradient by parameter.

        Time grows with P·D·K: three products, two of them only over the points of violated margins. Memory grows with
        P·(D + K) and one matrix per relation of the batch.
        """
        num_entities, device = len(self.entities), self.entities.device
        placed = PlacedBatch.of(batch, lambda entities, relations: relations * num_entities + entities)
        entities_P, relations_P, relations, triples = (
            torch.from_numpy(numbers).to(device)
            for numbers in (
                placed.points % num_entities,
                placed.points // num_entities,
                placed.relations,
                placed.triples,
            )
        )
        # Forward: project each (relation, entity) once, and shorten.
        rows_PD = self.entities.index_select(0, entities_P)
        table, lengths_P = self._table(rows_PD, relations_P, relations)
        value, gradient = loss.gradient(table, triples, len(batch), scale=scale)
        # Backward, only for points of violated margins: through the shortening, then through the projection. Rows from
        # `split` on are the relations' own vectors.
        split = int((gradient.rows < len(rows_PD)).sum())
        used = gradient.rows[:split]
        slopes = _through_shortening(gradient.values[:split], table.index_select(0, used), lengths_P[used])
        by_row, projections = self._through_projection(slopes, rows_PD.index_select(0, used), relations_P[used])
        places = torch.arange(len(used), device=device)
        return value, {
            "entities": sum_rows(by_row, places, entities_P[used], by_row.new_ones(len(used))),
            "relations": RowGradient(relations[gradient.rows[split:] - len(rows_PD)], gradient.values[split:]),
            "projections": projections,
        }

    def touched(self, batch: TrainingBatch) -> dict[str, np.ndarray]:
        """Ascending rows of each parameter that `gradients` of this batch, or of a share of it, may contain."""
        rows = touched_rows(batch)
        return {**rows, "projections": rows["relations"]}

    def _table(self, rows_PD: Tensor, relations_P: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the shortened points stacked on the relations' vectors, and the points' lengths before that, (P,)."""
        table = rows_PD.new_empty(len(rows_PD) + len(relations), self.relations.shape[1])
        points = table[: len(rows_PD)]
        for relation, start, end in _runs(relations_P):
            torch.mm(rows_PD[start:end], self.projections[relation], out=points[start:end])
        table[len(rows_PD) :] = self.relations[relations]
        lengths = torch.linalg.vector_norm(points, dim=1)
        points /= lengths.clamp(min=1)[:, None]
        return table, lengths

    def _through_projection(
        self, slopes_PK: Tensor, rows_PD: Tensor, relations_P: Tensor
    ) -> tuple[Tensor, RowGradient]:
        """Return the gradient by the rows and by the matrices, given the gradient by their products."""
        runs = list(_runs(relations_P))
        by_row = torch.empty_like(rows_PD)
        by_matrix = slopes_PK.new_empty(len(runs), *self.projections.shape[1:])
        for place, (relation, start, end) in enumerate(runs):
            torch.mm(slopes_PK[start:end], self.projections[relation].T, out=by_row[start:end])
            torch.mm(rows_PD[start:end].T, slopes_PK[start:end], out=by_matrix[place])
        return by_row, RowGradient(torch.unique_consecutive(relations_P), by_matrix)


def _through_shortening(slopes: Tensor, shortened: Tensor, lengths: Tensor) -> Tensor:
    """Return the gradient by the vectors before `short_rows`, given the gradient by those after it.

    A shortened vector has no gradient along itself.
    """
    along = torch.linalg.vecdot(slopes, shortened) * (lengths > 1)
    return (slopes - shortened * along[:, None]) / lengths.clamp(min=1)[:, None]


def _runs(relations: Tensor) -> Iterator[tuple[int, int, int]]:
    """Yield (relation, start, end) for every run of equal numbers."""
    numbers, counts = torch.unique_consecutive(relations, return_counts=True)
    end = 0
    for relation, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        yield relation, end, end + count
        end += count
