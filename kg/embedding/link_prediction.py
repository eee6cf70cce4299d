"""Filtered link prediction: rank of the true end of a triple among all entities (Bordes et al. 2013, 4.2).

For a triple (h, r, t) all entities are ranked as its tail, and as its head, by distance. Other entities that are known
to be true there are excluded. A rank is 1 + closer ones + half of those equally close, so that a model gains nothing by
giving many entities the same score. Distances that differ by no more than rounding count as equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from kg.embedding.batches import Triples
from kg.embedding.known import KnownTriples

HITS = (1, 3, 10)
QUERIES_AT_ONCE = 128


class TranslationalModel(Protocol):
    """A model in which a triple is likely if head + translation is near the tail."""

    def points(self, relation: int) -> Tensor:
        """(E, D): all entities as they are in triples of this relation."""

    def translation(self, relation: int) -> Tensor:
        """(D,)."""


@torch.no_grad()
def filtered_ranks(model: TranslationalModel, triples: Triples, known: KnownTriples) -> np.ndarray:
    """Return the rank of each triple's tail and of its head, counted from 1: float64 (T, 2).

    Time grows with E·D·K for each distinct relation and E·K for each triple; memory with E·(K + `QUERIES_AT_ONCE`).
    """
    ranks = np.empty((len(triples), 2))
    order = np.argsort(triples.relations, kind="stable")
    for relation in np.unique(triples.relations).tolist():
        start, end = np.searchsorted(triples.relations[order], (relation, relation + 1))
        points, translation = model.points(relation), model.translation(relation)
        squares = torch.linalg.vecdot(points, points)
        for first in range(start, end, QUERIES_AT_ONCE):
            places = order[first : min(end, first + QUERIES_AT_ONCE)]
            heads, tails = triples.heads[places], triples.tails[places]
            also_tails = [known.tails(head, relation) for head in heads.tolist()]
            also_heads = [known.heads(relation, tail) for tail in tails.tolist()]
            ranks[places, 0] = _ranks(points, squares, _take(points, heads) + translation, tails, also_tails)
            ranks[places, 1] = _ranks(points, squares, _take(points, tails) - translation, heads, also_heads)
    return ranks


def rank_figures(ranks: np.ndarray) -> dict[str, float]:
    """Return the mean reciprocal rank and the shares of ranks up to 1, 3 and 10; NaN without ranks."""
    return means_of(rank_sums(ranks))


def rank_sums(ranks: np.ndarray) -> dict[str, float]:
    """Return the sums that `means_of` turns into figures; sums of several workers can be added."""
    sums = {f"hits_at_{limit}": float((ranks <= limit).sum()) for limit in HITS}
    return {"mrr": float((1 / ranks).sum()), **sums, "ranks": float(ranks.size)}


def means_of(sums: Mapping[str, float]) -> dict[str, float]:
    """Return MRR and Hits@k from sums over ranks."""
    count = sums["ranks"]
    return {name: value / count if count else float("nan") for name, value in sums.items() if name != "ranks"}


def _take(points: Tensor, entities: np.ndarray) -> Tensor:
    return points[torch.from_numpy(entities).to(points.device)]


def _ranks(
    points: Tensor, squares: Tensor, targets: Tensor, wanted: np.ndarray, also_true: list[np.ndarray]
) -> np.ndarray:
    """Return the rank of entity `wanted[i]` by distance from `targets[i]`, ignoring the others in `also_true[i]`."""
    # ‖q − e‖² without ‖q‖², which is the same for all entities.
    distances = torch.addmm(squares, targets, points.T, alpha=-2)
    queries = torch.arange(len(wanted), device=points.device)
    own = distances[queries, torch.from_numpy(wanted).to(points.device)]
    # The wanted entity does not compete with itself, known or not.
    others = [np.append(known, entity) for known, entity in zip(also_true, wanted, strict=True)]
    lengths = torch.tensor([len(one) for one in others]).to(points.device)
    left_out = torch.from_numpy(np.concatenate(others)).to(points.device)
    distances[queries.repeat_interleave(lengths), left_out] = torch.inf
    # A matrix product rounds differently at its edges: distances that differ only by rounding are equal.
    rounding = 8 * torch.finfo(points.dtype).eps * (torch.linalg.vecdot(targets, targets) + squares.max())
    closer = (distances < (own - rounding)[:, None]).sum(1)
    equal = (distances <= (own + rounding)[:, None]).sum(1) - closer
    return (1 + closer + equal / 2).cpu().numpy()
