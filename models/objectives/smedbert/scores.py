"""How well an entity fits as a neighbour of a mention: f_s of Eq. 16, 18 and 19.

A mention is h (width D), an entity e (D), a relation r has a vector v (C) and a projection M (D x C). If the mention is
the tail of the triple, r leads the other way, and v is -v throughout.

    eq16    mu cos(h M + v, e M), every entity projected; the logit is this minus log Q(e)
    eq18    the same number. With P = [M; v] [M; v]^T, (D + 1) x (D + 1), the inner product is [h 1] P [e 0]^T, and
            |h M + v|^2 is [h 1] P [h 1]^T: entities are not projected. Their norms |e M|, which Eq. 18 does not spare,
            are constants of the graph and come with its arrays.
    eq19    mu cos([h 1] P, [e 0]) - mu log Q(e), as printed

Eq. 19 is another function than Eq. 16: it is a cosine in the space of the entities, where |[h 1] P| and |e| take the
place of |h M + v| and |e M|; and it scales log Q by mu too, with which the sampled softmax is no longer an estimate of
the full one (Jean et al., 2015, section 3.1). Rare entities then win by far: at mu = 10 an entity that is e times as
rare has its logit raised by 10, as much as a cosine can rise from 0 to 1.

Shape legend: M mentions, Q distinct (mention, relation, direction), P pairs of a mention and a neighbour, N candidates
of a pair (the neighbour and its negatives), R relations, D width of an entity's vector, C of a relation's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        """`form` is eq16, eq18 or eq19, `scale` is mu. Memory: (D + 1)^2 numbers per relation."""
        self.form, self.scale = form, scale
        vectors_RC = torch.from_numpy(np.array(knowledge.relation_vectors))
        stacked = torch.cat([torch.from_numpy(np.array(knowledge.projections)), vectors_RC.unsqueeze(1)], 1)
        self._spaces = stacked if form == "eq16" else torch.bmm(stacked, stacked.transpose(1, 2))

    def to(self, device: torch.device) -> NeighbourScorer:
        """Move the relations to a device, and return self."""
        self._spaces = self._spaces.to(device)
        return self

    def scores(self, mentions_MD: Tensor, pairs: NeighbourPairs) -> Tensor:
        """Return float32 (P, N): scores without log Q, times mu."""
        extended_QD = torch.cat([mentions_MD.index_select(0, pairs.mentions), pairs.signs.unsqueeze(1)], 1)
        # One product per relation, on neighbouring queries; relations that are not there cost nothing.
        spaces = self._spaces
        moved = [extended_QD[first:end] @ spaces[relation] for relation, first, end, _, _ in pairs.runs]
        moved_Q = torch.cat(moved) if moved else extended_QD @ spaces[0]
        if self.form == "eq16":
            lengths_Q = moved_Q.norm(dim=1)
        elif self.form == "eq18":
            lengths_Q = (moved_Q * extended_QD).sum(1).clamp(min=TINY).sqrt()
        else:
            lengths_Q = moved_Q.norm(dim=1)
        queries_PD = (moved_Q / lengths_Q.clamp(min=TINY).unsqueeze(1)).index_select(0, pairs.queries)
        if self.form == "eq16":
            entities = self._projected(pairs)
        else:
            entities, queries_PD = pairs.vectors[pairs.candidates], queries_PD[:, :-1]
        products_PN = torch.bmm(entities, queries_PD.unsqueeze(2)).squeeze(2)
        norms_PN = pairs.norms if self.form == "eq18" else entities.norm(dim=2)
        return self.scale * products_PN / norms_PN.clamp(min=TINY)

    def logits(self, scores_PN: Tensor, pairs: NeighbourPairs) -> Tensor:
        """Return scores compensated for how negatives are drawn; -inf for candidates that are not allowed."""
        factor = self.scale if self.form == "eq19" else 1.0
        return (scores_PN - factor * pairs.log_q).masked_fill(~pairs.allowed, -torch.inf)

    def _projected(self, pairs: NeighbourPairs) -> Tensor:
        """e M of all candidates, (P, N, C)."""
        found = [
            pairs.vectors[pairs.candidates[first:end]] @ self._spaces[relation, :-1]
            for relation, _, _, first, end in pairs.runs
        ]
        return torch.cat(found) if found else pairs.vectors[pairs.candidates] @ self._spaces[0, :-1]
