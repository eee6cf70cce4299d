"""Bagging of trees from positive and unlabelled examples: finds what is like the positives, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.phrase_classifier import Bagging, qualities

DRAWN = np.random.default_rng(0)
GOOD = np.arange(600) < 200
FEATURES = DRAWN.normal(size=(600, 4)) + 3.0 * GOOD[:, None]
POSITIVE = GOOD & (np.arange(600) < 160)
"""Known good ones; a tenth of the rest, the pool, is good too."""


def test_hidden_good_ones_are_found_in_the_pool() -> None:
    quality = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=100))
    hidden = quality[GOOD & ~POSITIVE]
    assert quality.min() >= 0 and quality.max() <= 1
    assert (hidden > 0.5).mean() > 0.9
    assert (quality[~GOOD] < 0.5).mean() > 0.9
    below = (hidden[:, None] > quality[~GOOD][None, :]).mean()
    assert below > 0.97  # area under the curve


def test_threads_change_nothing_and_the_seed_does() -> None:
    one = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=30, threads=1))
    three = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=30, threads=3))
    other = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=30, seed=1))
    assert np.array_equal(one, three)
    assert not np.array_equal(one, other)


def test_more_negatives_make_it_stricter() -> None:
    fair = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=60))
    strict = qualities(FEATURES, POSITIVE, ~POSITIVE, Bagging(trees=60, negatives=4))
    assert strict[~POSITIVE].mean() < fair[~POSITIVE].mean()


def test_a_phrase_is_not_judged_by_trees_that_know_it() -> None:
    """In a pool as small as a tree's share every tree would call a hidden good one bad."""
    few = np.r_[:180, 200:210]
    quality = qualities(FEATURES[few], POSITIVE[few], ~POSITIVE[few], Bagging(trees=200))
    assert quality[160:180].mean() > 0.4
    noise = np.random.default_rng(1).normal(size=(60, 3))
    label = np.arange(60) < 30
    quality = qualities(noise, label, ~label, Bagging(trees=200, positives=30))
    assert abs(quality[label].mean() - quality[~label].mean()) < 0.2  # nothing can be learned


def test_both_kinds_of_examples_are_needed() -> None:
    nothing = np.zeros(600, dtype=bool)
    with pytest.raises(ValueError, match="0 positives and 600 unlabelled"):
        qualities(FEATURES, nothing, ~nothing, Bagging())
    with pytest.raises(ValueError, match="600 positives and 0 unlabelled"):
        qualities(FEATURES, ~nothing, nothing, Bagging())
