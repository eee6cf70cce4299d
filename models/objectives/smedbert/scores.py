"""Scores of entities as neighbours of a mention: f_s of Eq. 16, 18 and 19.

A mention is h (width D), an entity e (D), a relation r has a vector v (C) and a projection M (D x C). If the mention is
the tail of the triple, r leads the other way, and v is -v throughout.

    eq16    mu cos(h M + v, e M), every entity projected; the logit is this minus log Q(e)
    eq18    the same number: (h M + v) . (e M) = [h 1] [M; v] [M; v]^T [e 0]^T, the product of e with a vector that
            is found once per mention and relation. Entities are not projected. Their norms |e M|, which Eq. 18 does
            not spare, are constants of the graph and come with its arrays.
    eq19    mu cos([h 1] P, [e 0]) - mu log Q(e) with P = [M; v] [M; v]^T, as printed

Eq. 19 is another function than Eq. 16: it is a cosine in the space of the entities, where |[h 1] P| and |e| take the
place of |h M + v| and |e M|; and it scales log Q by mu too, with which the sampled softmax is no longer an estimate of
the full one (Jean et al., 2015, section 3.1). Rare entities then win by far: at mu = 10 an entity that is e times as
rare has its logit raised by 10, as much as a cosine can rise from 0 to 1.

Shape legend: M mentions, Q distinct (mention, relation, direction), P pairs of a mention and a neighbour, N candidates
of a pair (the neighbour and its negatives), R relations, D width of an entity's vector, C of a relation's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from models.knowledge import KnowledgeArrays

TINY = 1e-12


@dataclass(frozen=True)
class NeighbourPairs:
    """Pairs that are predicted, with their candidates; the neighbour is the first. Queries are sorted by relation, and
    pairs by query.
    """

    mentions: Tensor
    """int64 (Q,): mention of each query."""
    signs: Tensor
    """float32 (Q,): 1 where the mention is the head, -1 where it is the tail."""
    runs: tuple[tuple[int, int, int, int, int], ...]
    """By relation: its number, its first query and the one behind its last, the same of its pairs."""
    queries: Tensor
    """int64 (P,): query of each pair."""
    candidates: Tensor
    """int64 (P, N): rows of `vectors`."""
    vectors: Tensor
    """float32 (U, D): distinct entities."""
    norms: Tensor
    """float32 (P, N): |e M| in the space of the pair's relation."""
    log_q: Tensor
    """float32 (P, N)"""
    allowed: Tensor
    """bool (P, N): False for a negative that is a neighbour of the mention."""
    popular: Tensor
    """float32 (P,): share of the neighbour in the first place by the number of neighbours, 0 if another has more."""

    @property
    def count(self) -> int:
        """P"""
        return len(self.queries)


class NeighbourScorer:
    """The three forms of f_s over a graph's relations, which are constants: nothing here is learnt."""

    def __init__(self, knowledge: KnowledgeArrays, form: str, scale: float) -> None:
        """`form` is eq16, eq18 or eq19, `scale` is mu. On the CPU the relations stay mapped."""
        self.form, self.scale = form, scale
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nothing here writes
            self._vectors_RC = torch.from_numpy(knowledge.relation_vectors)
            self._projections_RDC = torch.from_numpy(knowledge.projections)

    def to(self, device: torch.device) -> NeighbourScorer:
        """Move the relations to a device, and return self."""
        self._vectors_RC, self._projections_RDC = self._vectors_RC.to(device), self._projections_RDC.to(device)
        return self

    def scores(self, mentions_MD: Tensor, pairs: NeighbourPairs) -> Tensor:
        """Return float32 (P, N): scores without log Q, times mu."""
        h_QD = mentions_MD.index_select(0, pairs.mentions)
        moved_QC = self._by_relation(h_QD, pairs, _moved)
        if self.form == "eq16":
            entities = self._projected(pairs)
            return self._cosines(moved_QC, moved_QC.norm(dim=1), entities, entities.norm(dim=2), pairs)
        entities = pairs.vectors[pairs.candidates]
        back_QD = self._by_relation(moved_QC, pairs, _moved_back)
        if self.form == "eq18":
            return self._cosines(back_QD, moved_QC.norm(dim=1), entities, pairs.norms, pairs)
        # The last number of [h 1] P, which meets the 0 of [e 0] but counts in the norm.
        last_Q = self._by_relation(moved_QC, pairs, _moved_to_one)
        lengths_Q = torch.cat([back_QD, last_Q], 1).norm(dim=1)
        return self._cosines(back_QD, lengths_Q, entities, entities.norm(dim=2), pairs)

    def logits(self, scores_PN: Tensor, pairs: NeighbourPairs) -> Tensor:
        """Return scores compensated for how negatives are drawn; -inf for candidates that are not allowed."""
        factor = self.scale if self.form == "eq19" else 1.0
        return (scores_PN - factor * pairs.log_q).masked_fill(~pairs.allowed, -torch.inf)

    def _cosines(
        self, queries: Tensor, lengths_Q: Tensor, entities: Tensor, norms_PN: Tensor, pairs: NeighbourPairs
    ) -> Tensor:
        """Products of queries (Q, X) with their candidates (P, N, X) over their lengths, times mu."""
        scaled = (queries * (self.scale / lengths_Q.clamp(min=TINY)).unsqueeze(1)).index_select(0, pairs.queries)
        return torch.bmm(entities, scaled.unsqueeze(2)).squeeze(2) / norms_PN.clamp(min=TINY)

    def _by_relation(self, x_Q: Tensor, pairs: NeighbourPairs, product: Product) -> Tensor:
        """Apply each relation to the queries that name it, which are neighbours; other relations cost nothing."""
        runs = pairs.runs or ((0, 0, 0, 0, 0),)
        sizes = [end - first for _, first, end, _, _ in runs]
        vectors, projections = self._vectors_RC, self._projections_RDC
        # A split has one derivative; that of each slice would be as large as all queries.
        given = zip(runs, x_Q.split(sizes), pairs.signs.unsqueeze(1).split(sizes), strict=True)
        return torch.cat([product(x, signs, vectors[run[0]], projections[run[0]]) for run, x, signs in given])

    def _projected(self, pairs: NeighbourPairs) -> Tensor:
        """e M of all candidates, (P, N, C)."""
        runs = pairs.runs or ((0, 0, 0, 0, 0),)
        projections = self._projections_RDC
        return torch.cat(
            [pairs.vectors[pairs.candidates[first:end]] @ projections[relation] for relation, _, _, first, end in runs]
        )


Product = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _moved(h_QD: Tensor, signs_Q1: Tensor, vector_C: Tensor, projection_DC: Tensor) -> Tensor:
    """h M + v"""
    return h_QD @ projection_DC + signs_Q1 * vector_C


def _moved_back(moved_QC: Tensor, signs_Q1: Tensor, vector_C: Tensor, projection_DC: Tensor) -> Tensor:
    """(h M + v) M^T"""
    return moved_QC @ projection_DC.T


def _moved_to_one(moved_QC: Tensor, signs_Q1: Tensor, vector_C: Tensor, projection_DC: Tensor) -> Tensor:
    """(h M + v) v^T, (Q, 1)"""
    return (moved_QC @ vector_C).unsqueeze(1)
