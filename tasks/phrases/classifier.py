"""Quality of phrases from positive and unlabelled examples, by bagging of trees.

Shang et al. (AutoPhrase, TKDE 2018, section 4.1): each of T trees is fully grown on K positives and K negatives drawn
with replacement, the negatives from the pool of unlabelled candidates; the quality of a phrase is the share of trees
that vote for it. Only trees that were not grown on the phrase vote (Mordelet and Vert, Pattern Recognition Letters
2014): the others have memorised it, which matters if the pool is small.

Every tree has its own seed and votes are whole numbers, so the votes of groups of trees add up to those of all. Time
grows with trees times candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

POSITIVE, UNLABELLED, NEITHER = 1, 0, -1
"""Roles of a candidate: known to be good; unlabelled, and drawn as a negative; known, but used as neither."""


class Votes(NamedTuple):
    """Votes of some trees on each candidate, int64 (P,) each."""

    for_it: np.ndarray
    """Number of trees that vote for it."""
    for_it_unseen: np.ndarray
    """Number of these that were not grown on it."""
    unseen: np.ndarray
    """Number of trees that were not grown on it."""


def votes_of(
    features: np.ndarray, roles: np.ndarray, trees: range, positives: int = 100, negatives: int = 1, seed: int = 42
) -> Votes:
    """Return the votes of some trees, which are given by their numbers.

    Args:
        features: float32 (P, F), finite.
        roles: int8 (P,), of `POSITIVE`, `UNLABELLED`, `NEITHER`.
        positives: number drawn per tree, at most as many as there are positives and unlabelled candidates.
        negatives: number drawn per tree for each of its positives.

    Raises:
        ValueError: there are no positives, or no unlabelled candidates.
    """
    from sklearn.tree import DecisionTreeClassifier  # takes a second to import, which only this engine needs

    good, pool = np.flatnonzero(roles == POSITIVE), np.flatnonzero(roles == UNLABELLED)
    if not len(good) or not len(pool):
        raise ValueError(f"{len(good):,} positives and {len(pool):,} unlabelled candidates: both are needed")
    size = min(positives, len(good), len(pool))
    for_it, for_it_unseen, unseen = np.zeros((3, len(features)), dtype=np.int64)
    for number in trees:
        drawn = np.random.default_rng([seed, number])
        chosen = np.concatenate([drawn.choice(good, size), drawn.choice(pool, size * negatives)])
        labels = np.arange(len(chosen)) < size
        tree = DecisionTreeClassifier(max_features="sqrt", random_state=int(drawn.integers(2**31)))
        says_yes = tree.fit(features[chosen], labels).predict(features)
        for_it += says_yes
        says_yes[chosen] = False
        for_it_unseen += says_yes
        unseen += 1
        unseen[np.unique(chosen)] -= 1
    return Votes(for_it, for_it_unseen, unseen)


def qualities(votes: Votes, trees: int) -> np.ndarray:
    """Return the quality of each candidate, 0 to 1, float64 (P,); if all `trees` were grown on it, all count."""
    return np.where(votes.unseen > 0, votes.for_it_unseen / np.maximum(1, votes.unseen), votes.for_it / trees)
