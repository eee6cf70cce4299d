"""The random walk of PageRank over a knowledge graph, and its converged scores for any jump vector.

    V = (1 − α) A·V + α P

A: from an entity the walk follows one of its triples, each with the same probability, in either direction. So A is the
symmetric adjacency matrix W, each column divided by its sum; W[i, j] is the number of triples between i and j. This
decides what the paper leaves open:

- both directions: otherwise no walk could leave an entity that is only ever a tail (most symptoms);
- parallel edges: two entities joined by two relations are joined twice as strongly;
- self loops: one triple, one chance to stay; counted once on the diagonal (like networkx; igraph counts them twice);
- dangling entities are those without any triple: their column of A is zero, and probability that reaches them is lost.
  Returning it by P instead, as networkx does, only multiplies V by a constant.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

TOLERANCE = 1e-17
"""Maximum change in the last step, as a share of the scores' sum; well below the precision of the scores."""


def adjacency(heads: np.ndarray, tails: np.ndarray, num_entities: int) -> sparse.csr_array:
    """Return W: float64 (Z, Z), symmetric, rows sorted by column. `heads` and `tails` are integers (triples,).

    Time and memory grow with the triples (32 bytes each).

    Raises:
        ValueError: the arrays differ in length, or an index is outside 0 … Z − 1.
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
    """Return the column sums of W, the number of triples of each entity: float64 (Z,)."""
    return np.asarray(weights.sum(axis=0)).ravel()


def converged_scores(weights: sparse.csr_array, jump: np.ndarray, alpha: float) -> np.ndarray:
    """Return V for a jump vector P ≥ 0, float64 (Z,), by iterating until nothing changes.

    The iteration starts from αP; the start does not affect the result. It takes at most ln `TOLERANCE` / ln(1 − α)
    steps.
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
    """Raise ValueError unless 0 < α ≤ 1."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha={alpha} must be above 0 and at most 1")
