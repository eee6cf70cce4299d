"""Bagging of trees from positive and unlabelled examples: finds candidates like the positives, with any groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.phrases.classifier import NEITHER, POSITIVE, UNLABELLED, Votes, qualities, votes_of

DRAWN = np.random.default_rng(0)
GOOD = np.arange(600) < 200
FEATURES = (DRAWN.normal(size=(600, 4)) + 3.0 * GOOD[:, None]).astype(np.float32)
KNOWN = GOOD & (np.arange(600) < 160)
"""Candidates known to be good; a tenth of the rest, the pool, is good too."""
ROLES = np.where(KNOWN, POSITIVE, UNLABELLED)


def judged(features: np.ndarray, roles: np.ndarray, trees: int, **others: Any) -> np.ndarray:
    return qualities(votes_of(features, roles, range(trees), **others), trees)


def test_good_candidates_hidden_in_the_pool_are_found() -> None:
    quality = judged(FEATURES, ROLES, 100)
    hidden = quality[GOOD & ~KNOWN]
    assert quality.min() >= 0 and quality.max() <= 1
    assert (hidden > 0.5).mean() > 0.9
    assert (quality[~GOOD] < 0.5).mean() > 0.9
    below = (hidden[:, None] > quality[~GOOD][None, :]).mean()
    assert below > 0.97  # area under the curve


def test_groups_of_trees_add_up_and_the_seed_matters() -> None:
    whole = votes_of(FEATURES, ROLES, range(30))
    groups = [votes_of(FEATURES, ROLES, trees) for trees in (range(7), range(7, 8), range(8, 30))]
    added = Votes(*(sum(column) for column in zip(*groups, strict=True)))
    assert all(np.array_equal(one, other) for one, other in zip(whole, added, strict=True))
    assert not np.array_equal(judged(FEATURES, ROLES, 30), judged(FEATURES, ROLES, 30, seed=1))


def test_candidates_of_neither_role_are_judged_but_not_learned_from() -> None:
    """Known good candidates without a label: in the pool, they would make the others like them seem bad."""
    neither = np.where(GOOD & ~KNOWN, NEITHER, ROLES)
    votes = votes_of(FEATURES, neither, range(60))
    assert (votes.unseen[neither == NEITHER] == 60).all()
    assert (votes.unseen[neither != NEITHER] < 60).any()
    assert qualities(votes, 60)[GOOD & ~KNOWN].mean() > judged(FEATURES, ROLES, 60)[GOOD & ~KNOWN].mean()


def test_more_negatives_lower_the_quality() -> None:
    fair, strict = judged(FEATURES, ROLES, 60), judged(FEATURES, ROLES, 60, negatives=4)
    assert strict[~KNOWN].mean() < fair[~KNOWN].mean()


def test_phrase_is_not_judged_by_trees_grown_on_it() -> None:
    """If the pool is as small as a tree's sample, every tree grown on a hidden good candidate would call it bad."""
    few = np.r_[:180, 200:210]
    quality = judged(FEATURES[few], ROLES[few], 200)
    assert quality[160:180].mean() > 0.4
    noise = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    label = np.arange(60) < 30
    quality = judged(noise, np.where(label, POSITIVE, UNLABELLED), 200, positives=30)
    assert abs(quality[label].mean() - quality[~label].mean()) < 0.2  # nothing can be learned


def test_both_kinds_of_examples_are_needed() -> None:
    with pytest.raises(ValueError, match="0 positives and 600 unlabelled"):
        votes_of(FEATURES, np.full(600, UNLABELLED), range(1))
    with pytest.raises(ValueError, match="600 positives and 0 unlabelled"):
        votes_of(FEATURES, np.full(600, POSITIVE), range(1))
