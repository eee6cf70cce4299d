"""Personalized Entity PageRank (PEPR): the most important neighbours of each entity, computed exactly.

Source: SMedBERT (Zhang et al., ACL 2021), section 3.2: V = (1 − α) A·V + α P, with P = 1 at the mention and 1/Z at each
of the other entities, Z the number of entities; the top K of the mention's neighbours are kept. kg/pepr/pagerank.py
defines A, with parallel edges, self loops and dangling entities. Equation 1 starts the iteration from the entities'
frequencies; the converged scores, which are returned here, do not depend on the start.

The iteration is linear, so for a mention m and a neighbour j

    V[j] = u[j] + (1 − 1/Z) α √(w_j / w_m) X[j, m],    X = (I − (1 − α) N)⁻¹,    N[i, j] = W[i, j] / √(w_i w_j)

with u the scores of a uniform jump, one vector for all mentions, W the adjacency matrix and w its column sums. X is
symmetric and needed only where two entities are neighbours. These are as many numbers as the graph has edges, and
kg/pepr/elimination.py and kg/pepr/core_inverse.py compute them for all mentions together, to full precision.

P as printed sums to 2 − 1/Z. Divided by their sum, the scores are those of networkx with this P as `personalization`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from scipy import sparse

from infra.schemas import NEIGHBOURS
from kg.pepr.core_inverse import inverse_entries, row_blocks
from kg.pepr.elimination import Round, eliminate, entries_at, undo
from kg.pepr.limits import MAX_DENSE
from kg.pepr.pagerank import adjacency, check_alpha, converged_scores, strengths

TIE = 1e-10
"""Relative difference below which two scores of one mention are equal: far above the rounding errors, and far below
real differences between neighbours."""


class Graph(Protocol):
    """The needed members of `kg.graph.KnowledgeGraph`: distinct triples as indices, entities in order of their ids."""

    heads: np.ndarray
    relations: np.ndarray
    tails: np.ndarray
    relation_names: list[str]

    @property
    def entity_ids(self) -> Sequence[str]: ...


class System(NamedTuple):
    """I − (1 − α) N, eliminated down to a core whose inverse can be computed in blocks of rows."""

    weights: sparse.csr_array
    """W, float64 (Z, Z)."""
    rounds: list[Round]
    core: sparse.csr_array
    blocks: list[range]
    """Rows of the core, each block to be given to `kg.pepr.core_inverse.inverse_entries` in any process and order."""


class Candidates(NamedTuple):
    """The neighbours of every entity in either direction, each once, without the entity itself.

    Those of entity i are at [offsets[i], offsets[i + 1]), in the order of their ids. The triples that join candidate e
    to its entity are at [triple_offsets[e], triple_offsets[e + 1]): outgoing ones before incoming ones, then those
    whose relation has more triples in the graph, then by name. A model that wants one triple takes the first.
    """

    offsets: np.ndarray
    """int64 (Z + 1,)."""
    neighbours: np.ndarray
    """int64 (E,)."""
    triple_offsets: np.ndarray
    """int64 (E + 1,)."""
    relations: np.ndarray
    """int64 (T,)."""
    directions: np.ndarray
    """int8 (T,): 1 where the entity is the head, −1 where it is the tail."""
    scores: np.ndarray
    """float64 (E,): V at the neighbour, with the jump vector of the entity."""

    @property
    def owners(self) -> np.ndarray:
        """The entity whose neighbour each is, int64 (E,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def rank_neighbours(
    graph: Graph, frequencies: Mapping[str, float] | None = None, k: int = 10, alpha: float = 0.15
) -> pa.Table:
    """Return the `k` neighbours with the highest converged PEPR scores, for every entity that has a neighbour.

    Args:
        graph: the graph; its triples must be distinct.
        frequencies: frequencies of entities in the corpus. Accepted because Eq. 1 has them; they do not affect the
            result.
        k: maximum number of neighbours, K in the paper.
        alpha: probability of a jump.

    Returns:
        entity, neighbour: ids; rank: int32 from 1; relation: name; direction: int8, 1 where the entity is the head
        and −1 where it is the tail; score: float64, V; others: the relation and direction of each further triple
        between the two, which are in the order of `Candidates`. Ordered by entity and rank; equal scores in the order
        of ids.

    Time: for graphs like CMeKG (170,217 entities, 967,408 triples) 1 to 2 minutes of one core, mostly the cube of the
    core that elimination leaves (14,000 entities there); memory half its square (0.8 GB). A graph of 274,163 entities
    and 4.4 M triples leaves a core of 44,000 (benchmarks/results: PEPR at full size). For a core larger than
    `MAX_DENSE`, memory grows only with its stored entries, at twenty times the time.

    Raises:
        ValueError: k is less than 1, or alpha is not in (0, 1].
    """
    system = prepare(graph, alpha)
    entries = [inverse_entries(system.core, block) for block in system.blocks]
    found = score_candidates(graph, system, entries, alpha)
    places, ranks, scores = top(found.offsets, found.scores, k)
    ids = pa.array(graph.entity_ids, pa.string())
    joined = joining_triples(graph, found, places)
    return pa.table(
        {
            "entity": ids.take(pa.array(found.owners[places])),
            "rank": pa.array(ranks, pa.int32()),
            "neighbour": ids.take(pa.array(found.neighbours[places])),
            "relation": joined["relation"],
            "direction": joined["direction"],
            "score": pa.array(scores),
            "others": joined["others"],
        }
    )


def joining_triples(graph: Graph, found: Candidates, places: np.ndarray) -> dict[str, pa.Array]:
    """Return the columns relation, direction and others of some candidates: their first triple, and the rest."""
    names = pa.array(graph.relation_names, pa.string())
    first = found.triple_offsets[places]
    sizes = found.triple_offsets[places + 1] - first - 1
    borders = np.concatenate([[0], np.cumsum(sizes)])
    # Triples [4, 5, 6] of a candidate: 4 is the first, and the places of the others are 4 + 1 + (0, 1).
    rest = np.repeat(first + 1 - borders[:-1], sizes) + np.arange(borders[-1])
    kind = NEIGHBOURS.field("others").type
    columns = [names.take(pa.array(found.relations[rest])), pa.array(found.directions[rest], pa.int8())]
    others = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return {
        "relation": names.take(pa.array(found.relations[first])),
        "direction": pa.array(found.directions[first], pa.int8()),
        "others": pa.ListArray.from_arrays(pa.array(borders, pa.int32()), others, type=kind),
    }


def prepare(graph: Graph, alpha: float, max_dense: int = MAX_DENSE) -> System:
    """Eliminate as many entities as possible.

    A core of up to `max_dense` entities is one block. A larger one has blocks of fixed size, and elimination stops
    where the iterations on the core are cheapest.
    """
    check_alpha(alpha)
    size = len(graph.entity_ids)
    weights = adjacency(graph.heads, graph.tails, size)
    sums = strengths(weights)
    scale = sparse.diags_array(np.divide(1, np.sqrt(sums), out=np.zeros(size), where=sums > 0))
    matrix = sparse.csr_array(sparse.eye_array(size) - (1 - alpha) * (scale @ weights @ scale))
    matrix.sort_indices()
    rounds, core = eliminate(matrix)
    # An iterative solver costs rows × stored entries, and late rounds add entries faster than they remove rows: go back
    # to the cheapest round.
    if core.shape[0] > max_dense:
        left = [*(done.matrix for done in rounds), core]
        best = int(np.argmin([system.shape[0] * system.nnz for system in left]))
        rounds, core = rounds[:best], left[best]
    return System(weights, rounds, core, row_blocks(core, max_dense))


def score_candidates(graph: Graph, system: System, entries: Iterable[np.ndarray], alpha: float) -> Candidates:
    """Return every entity's neighbours with their scores. `entries`: the core's inverse, one array per block."""
    core, size = system.core, system.weights.shape[0]
    values = np.concatenate([np.zeros(0), *entries])
    inverse = undo(system.rounds, sparse.csr_array((values, core.indices, core.indptr), shape=core.shape))
    owners, neighbours, triple_offsets, relations, directions = _neighbours(graph, size)
    sums = strengths(system.weights)
    personal = alpha * np.sqrt(sums[neighbours] / sums[owners]) * entries_at(inverse, owners, neighbours)
    common = converged_scores(system.weights, np.full(size, 1 / max(size, 1)), alpha)
    offsets = np.searchsorted(owners, np.arange(size + 1))
    scores = common[neighbours] + (1 - 1 / max(size, 1)) * personal
    return Candidates(offsets, neighbours, triple_offsets, relations, directions, scores)


def top(offsets: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best `k` of each group of scores: (places, ranks from 1, scores), group by group, best first.

    Group i is at [offsets[i], offsets[i + 1]). Equal scores (see `TIE`) keep their order and all become the highest of
    them. Time n log n; groups do not affect each other.

    Raises:
        ValueError: k is less than 1.
    """
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Best first within groups; then runs of scores that are equal up to `TIE` get one level, and ties within a level
    # return to their original order.
    order = np.lexsort((-scores, groups))
    if not len(order):
        return order, order, scores
    group, score = groups[order], scores[order]
    begins = np.concatenate([[True], (group[1:] != group[:-1]) | (score[:-1] - score[1:] > TIE * score[:-1])])
    level = np.cumsum(begins) - 1
    score = score[begins][level]
    order = order[np.lexsort((order, level))]
    ranks = np.arange(len(order)) - offsets[group] + 1
    kept = ranks <= k
    return order[kept], ranks[kept], score[kept]


def _neighbours(graph: Graph, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (owners, neighbours, triple_offsets, relations, directions) as in `Candidates`."""
    other = graph.heads != graph.tails
    heads, tails, relations = (array[other].astype(np.int64) for array in (graph.heads, graph.tails, graph.relations))
    # Each triple from both of its ends; those of one pair follow each other, relations being numbered by their names.
    keys = np.concatenate([heads * size + tails, tails * size + heads])
    incoming = np.repeat([False, True], len(heads))
    relations = np.concatenate([relations, relations])
    uses = np.bincount(graph.relations, minlength=len(graph.relation_names))
    order = np.lexsort((relations, -uses[relations], incoming, keys))
    keys, first = np.unique(keys[order], return_index=True)
    owners, neighbours = np.divmod(keys, max(size, 1))
    directions = np.where(incoming[order], -1, 1).astype(np.int8)
    return owners, neighbours, np.append(first, len(order)), relations[order], directions
