"""Uncertainty of scores: bootstrap intervals, and tests between two models on the same records.

All functions take the rows of counts that a metric's `tally` returns, one per record or question, so whole records are
resampled. The metric's `value` turns their sums into scores. Results depend on the counts and the seed alone.

Time: `rounds` x units x counts. Memory: 8 bytes x units x rounds of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tasks.metrics.scores import Metric

ROUNDS = 2_000
"""Number of resamples; a p-value of 0.05 then has a standard error of 0.005."""

BLOCK = 1 << 22
"""Random numbers drawn at once, which bounds memory: 32 MB of float64."""


class Interval(NamedTuple):
    """A score and the middle `level` of its resampled values."""

    score: float
    low: float
    high: float


class Comparison(NamedTuple):
    """Difference first - second, its interval, and the probability of one this large between exchangeable models."""

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap_interval(
    metric: Metric, tally: np.ndarray, *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """Return the percentile bootstrap interval of a score.

    Args:
        metric: the metric whose `value` is applied.
        tally: float64 (units, S), from its `tally`.
        level: share of the resampled scores inside the interval.
        rounds: number of resamples.
        seed: seed of the draws.

    Raises:
        ValueError: there are no units, or the level is outside 0 to 1.
    """
    _check(tally, level)
    values = np.concatenate([metric.value(weights @ tally) for weights in _resamples(len(tally), rounds, seed)])
    low, high = _middle(values, level)
    return Interval(float(metric.value(tally.sum(0))), low, high)


def compare(
    metric: Metric, first: np.ndarray, second: np.ndarray, *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0
) -> Comparison:
    """Compare two models: approximate randomisation, and a paired bootstrap interval of the difference.

    In each round a coin decides for every unit whether the two models' counts change places. The p-value is the share
    of rounds whose difference is at least as large as the real one in either direction (Noreen 1989), with one added to
    both counts so that it is never 0. The interval draws the same units for both models.

    Args:
        metric: the metric whose `value` is applied.
        first: float64 (units, S): counts of one model.
        second: counts of the other, for the same units in the same order.
        level: share of the resampled differences inside the interval.
        rounds: number of rounds of each kind.
        seed: seed of the draws.

    Raises:
        ValueError: the two differ in shape, there are no units, or the level is outside 0 to 1.
    """
    _check(first, level)
    if first.shape != second.shape:
        raise ValueError(f"counts of two models must be of the same units, got shapes {first.shape} and {second.shape}")
    value = metric.value
    real = _difference(value, first.sum(0), second.sum(0))
    resampled = [
        _difference(value, weights @ first, weights @ second) for weights in _resamples(len(first), rounds, seed)
    ]
    low, high = _middle(np.concatenate(resampled), level)
    change, middle = (first - second) / 2, (first + second).sum(0) / 2
    # Swapping a unit's counts means adding or subtracting half their difference, so a round is one product with signs.
    exceeding = 0
    for signs in _coins(len(first), rounds, seed):
        shift = signs @ change
        swapped = _difference(value, middle + shift, middle - shift)
        # Rounding must not drop the ties: with one differing unit every round is as large as the real difference.
        exceeding += int((np.abs(swapped) >= abs(real) - 1e-12).sum())
    return Comparison(float(real), low, high, (exceeding + 1) / (rounds + 1))


def mcnemar(first_right: np.ndarray, second_right: np.ndarray) -> float:
    """Return the exact two-sided p-value of McNemar's test for the accuracies of two models.

    Args:
        first_right: bool (records,): True where one model is right.
        second_right: bool (records,): True where the other is right.

    Raises:
        ValueError: the two differ in length.
    """
    from scipy.stats import binomtest  # slow to import

    first, second = np.asarray(first_right, bool), np.asarray(second_right, bool)
    if first.shape != second.shape:
        raise ValueError(
            f"answers of two models must be to the same records, got shapes {first.shape} and {second.shape}"
        )
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


def _difference(value: Callable[[np.ndarray], np.ndarray], first: np.ndarray, second: np.ndarray) -> np.ndarray:
    one, other = np.asarray(value(first)), np.asarray(value(second))
    same = one == other  # inf - inf is NaN, but two infinite PAIR scores do not differ
    return np.subtract(one, other, out=np.zeros_like(one), where=~same)


def _middle(values: np.ndarray, level: float) -> tuple[float, float]:
    # PAIR scores can be infinite, and interpolating between a finite and an infinite value makes no sense.
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    return float(low), float(high)


def _check(tally: np.ndarray, level: float) -> None:
    if tally.ndim != 2 or not len(tally):
        raise ValueError(f"counts must be (units, S) with at least one unit, got shape {tally.shape}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")


def _resamples(units: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """Number of times each unit is drawn, in blocks of float64 (rounds, units)."""
    draws = np.random.default_rng([seed, 0])
    for some in _blocks(units, rounds):
        weights = np.empty((some, units))
        for row in weights:  # one call per round: the draws do not depend on the size of a block
            row[:] = np.bincount(draws.integers(units, size=units), minlength=units)
        yield weights


def _coins(units: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """1 or -1 for each unit, in blocks of float64 (rounds, units)."""
    draws = np.random.default_rng([seed, 1])
    for some in _blocks(units, rounds):
        yield draws.integers(2, size=(some, units)) * 2.0 - 1.0


def _blocks(units: int, rounds: int) -> Iterator[int]:
    size = max(1, BLOCK // units)
    for begin in range(0, rounds, size):
        yield min(size, rounds - begin)
