"""Quality of phrases from positive and unlabelled examples: bagging of trees.

Shang et al. (AutoPhrase, TKDE 2018, section 4.1): each of T trees is grown to its end on K positives and K negatives
drawn with replacement, the negatives from the pool of what nobody labelled; the quality of a phrase is the share of
trees that take it for one. Only trees that were not grown on the phrase are asked (Mordelet and Vert, Pattern
Recognition Letters 2014): those that were know it by heart, which matters where the pool is small.

Trees are grown in threads (scikit-learn lets Python's lock go); every tree has a seed of its own and votes are whole
numbers, so the number of threads changes nothing. Time grows with trees times candidates.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Bagging:
    """How trees are drawn."""

    trees: int = 1000
    positives: int = 100
    """Positives of a tree, K; where there are fewer positives or fewer in the pool, so many."""
    negatives: int = 1
    """Negatives of a tree for each of its positives."""
    seed: int = 42
    threads: int = 1


def qualities(features: np.ndarray, positive: np.ndarray, unlabelled: np.ndarray, bagging: Bagging) -> np.ndarray:
    """The quality of each candidate, from 0 to 1.

    Args:
        features: float64 (P, F), finite.
        positive: which are known to be good, bool (P,).
        unlabelled: which may stand for bad ones, bool (P,).

    Returns:
        float64 (P,).

    Raises:
        ValueError: there are no positives, or none that may stand for negatives.
    """
    from sklearn.tree import DecisionTreeClassifier  # a second that only runs of this engine should wait for

    good, pool = np.flatnonzero(positive), np.flatnonzero(unlabelled)
    if not len(good) or not len(pool):
        raise ValueError(f"{len(good):,} positives and {len(pool):,} unlabelled candidates: both are needed")
    rows = np.ascontiguousarray(features, dtype=np.float32)
    size = min(bagging.positives, len(good), len(pool))

    def votes(number: int) -> tuple[np.ndarray, np.ndarray]:
        drawn = np.random.default_rng([bagging.seed, number])
        chosen = np.concatenate([drawn.choice(good, size), drawn.choice(pool, size * bagging.negatives)])
        labels = np.arange(len(chosen)) < size
        tree = DecisionTreeClassifier(max_features="sqrt", random_state=int(drawn.integers(2**31)))
        return tree.fit(rows[chosen], labels).predict(rows), np.unique(chosen)

    of_all, of_others, others = np.zeros((3, len(rows)), dtype=np.int64)
    with ThreadPoolExecutor(bagging.threads) as pool_of_threads:
        # In groups, so that not all trees' votes are in memory at once.
        for first in range(0, bagging.trees, 4 * bagging.threads):
            last = min(bagging.trees, first + 4 * bagging.threads)
            for vote, grown_on in pool_of_threads.map(votes, range(first, last)):
                of_all += vote
                vote[grown_on] = False
                of_others += vote
                others += 1
                others[grown_on] -= 1
    return np.where(others > 0, of_others / np.maximum(1, others), of_all / bagging.trees)
