"""The random walk of PageRank over a knowledge graph, and its converged scores for any jump vector.

    V = (1 − α) A·V + α P

A: from an entity the walk takes one of its triples, each with the same chance, in either direction. So A is the
symmetric adjacency matrix W, divided column by column by its sums; W[i, j] is the number of triples between i and j.
That settles what the paper leaves open:

- both directions: what is only ever a tail (most symptoms) would otherwise be left by no walk;
- parallel edges: two entities joined by two relations are joined twice as strongly;
- self loops: one triple, one chance to stay; counted once on the diagonal (as networkx does, igraph counts twice);
- dangling entities are those without any triple: their column of A is zero and what reaches them is lost. Giving it
  back by P instead, as networkx does, only multiplies V by a number.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

TOLERANCE = 1e-17
"""The largest change of the last step, as a share of the scores' sum; well under what the scores' digits can hold."""


def adjacency(heads: np.ndarray, tails: np.ndarray, num_entities: int) -> sparse.csr_array:
    """W: float64 (Z, Z), symmetric, rows sorted by column. `heads` and `tails` are integers (triples,).

    Time and memory grow with the triples (32 bytes each).

    Raises:
        ValueError: arrays of different length, or an index outside 0 … Z − 1.
    """
    if heads.shape != tails.shape:
        raise ValueError(f"{heads.size} heads and {tails.size} tails")
    if heads.size and not 0 <= min(heads.min(), tails.min()) <= max(heads.max(), tails.max()) < num_entities:
        raise ValueError(f"a triple names an entity outside 0 … {num_entities - 1}")
    other = heads != tails
    rows = np.concatenate([heads, tails[other]])
    columns = np.concatenate([tails, heads[other]])
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(num_entities, num_entities))


def strengths(weights: sparse.csr_array) -> np.ndarray:
    """The column sums of W: triples of each entity, float64 (Z,)."""
    return np.asarray(weights.sum(axis=0)).ravel()


def converged_scores(weights: sparse.csr_array, jump: np.ndarray, alpha: float) -> np.ndarray:
    """V for a jump vector P ≥ 0, float64 (Z,): the iteration until nothing changes any more.

    It starts from αP; where it starts has no influence on where it ends. Steps: ln `TOLERANCE` / ln(1 − α) at most.
    """
    check_alpha(alpha)
    sums = strengths(weights)
    share = np.divide(1 - alpha, sums, out=np.zeros_like(sums), where=sums > 0)
    scores = step = alpha * jump
    while step.sum() > TOLERANCE * scores.sum():
        step = weights @ (share * step)
        scores = scores + step
    return scores


def check_alpha(alpha: float) -> None:
    """Raises ValueError unless 0 < α ≤ 1."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha} must be over 0 and at most 1")
