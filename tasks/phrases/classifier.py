"""Quality of phrases from positive and unlabelled examples: bagging of trees.

Shang et al. (AutoPhrase, TKDE 2018, section 4.1): each of T trees is grown to its end on K positives and K negatives
drawn with replacement, the negatives from the pool of what nobody labelled; the quality of a phrase is the share of
trees that take it for one. Only trees that were not grown on the phrase are asked (Mordelet and Vert, Pattern
Recognition Letters 2014): those that were know it by heart, which matters where the pool is small.

Every tree has a seed of its own and votes are whole numbers: the votes of groups of trees add up to those of all.
Time grows with trees times candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

POSITIVE, UNLABELLED, NEITHER = 1, 0, -1
"""Roles of a candidate: known to be good; may stand for a bad one; known, and not taken for either."""


class Votes(NamedTuple):
    """What some trees say of each candidate, int64 (P,) each."""

    for_it: np.ndarray
    """Trees that take it for a phrase."""
    for_it_unseen: np.ndarray
    """Of them, those that were not grown on it."""
    unseen: np.ndarray
    """Trees that were not grown on it."""


def votes_of(
    features: np.ndarray, roles: np.ndarray, trees: range, positives: int = 100, negatives: int = 1, seed: int = 42
) -> Votes:
    """The votes of some trees, given by their numbers.

    Args:
        features: float32 (P, F), finite.
        roles: int8 (P,), of `POSITIVE`, `UNLABELLED`, `NEITHER`.
        positives: drawn for a tree; where there are fewer, or fewer unlabelled ones, so many.
        negatives: drawn for a tree for each of its positives.

    Raises:
        ValueError: there are no positives, or none that may stand for negatives.
    """
    from sklearn.tree import DecisionTreeClassifier  # a second that only runs of this engine should wait for

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
    """The quality of each candidate, from 0 to 1, float64 (P,); where all `trees` were grown on it, all are asked."""
    return np.where(votes.unseen > 0, votes.for_it_unseen / np.maximum(1, votes.unseen), votes.for_it / trees)
