"""How sure a score is: bootstrap intervals of one, and tests between two models on the same records.

All take the rows of counts that a metric's `tally` gives, one a record (or question), so whole records are drawn, and a
metric's `value` turns their sums into scores. Results are functions of the counts and the seed.

Time: `rounds` x units x counts. Memory: 8 bytes x units x rounds of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tasks.metrics.scores import Metric

ROUNDS = 2_000
"""Resamples; the standard error of a p-value of 0.05 is then 0.005."""

BLOCK = 1 << 22
"""Numbers drawn at once."""


class Interval(NamedTuple):
    """A score and the middle `level` of its resampled values."""

    score: float
    low: float
    high: float


class Comparison(NamedTuple):
    """The difference first - second, its interval, and the chance of one as large if the models were exchangeable."""

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap_interval(
    metric: Metric, tally: np.ndarray, *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """The percentile bootstrap interval of a score.

    Args:
        metric: whose `value` applies.
        tally: float64 (units, S), by its `tally`.
        level: share of the resampled scores inside.
        rounds: resamples.
        seed: of the draws.

    Raises:
        ValueError: no unit, or a level outside 0 to 1.
    """
    _check(tally, level)
    values = np.concatenate([metric.value(weights @ tally) for weights in _resamples(len(tally), rounds, seed)])
    low, high = _middle(values, level)
    return Interval(float(metric.value(tally.sum(0))), low, high)


def compare(
    metric: Metric, first: np.ndarray, second: np.ndarray, *, level: float = 0.95, rounds: int = ROUNDS, seed: int = 0
) -> Comparison:
    """A paired test between two models: approximate randomisation, and a paired bootstrap interval of the difference.

    In each round the two models' counts of each unit change places or not, by a coin; the p-value is the share of
    rounds whose difference is at least as large as the real one, either way (Noreen 1989), plus one in both counts so
    that it is never 0. The interval draws the same units for both.

    Args:
        metric: whose `value` applies.
        first: float64 (units, S): one model's counts.
        second: the other's, of the same units in the same order.
        level: of the interval.
        rounds: of either kind.
        seed: of the draws.

    Raises:
        ValueError: the two differ in shape, there is no unit, or a level outside 0 to 1.
    """
    _check(first, level)
    if first.shape != second.shape:
        raise ValueError(f"two models' counts on the same units are compared, not {first.shape} and {second.shape}")
    value = metric.value
    real = _difference(value, first.sum(0), second.sum(0))
    resampled = [
        _difference(value, weights @ first, weights @ second) for weights in _resamples(len(first), rounds, seed)
    ]
    low, high = _middle(np.concatenate(resampled), level)
    change, middle = (first - second) / 2, (first + second).sum(0) / 2
    exceeding = 0
    for signs in _coins(len(first), rounds, seed):
        shift = signs @ change
        swapped = _difference(value, middle + shift, middle - shift)
        exceeding += int((np.abs(swapped) >= abs(real) - 1e-12).sum())
    return Comparison(float(real), low, high, (exceeding + 1) / (rounds + 1))


def mcnemar(first_right: np.ndarray, second_right: np.ndarray) -> float:
    """The exact two-sided p-value of McNemar's test for two models' accuracies.

    Args:
        first_right: bool (records,): whether one model is right.
        second_right: bool (records,): whether the other is.

    Raises:
        ValueError: they differ in length.
    """
    from scipy.stats import binomtest  # slow to import

    first, second = np.asarray(first_right, bool), np.asarray(second_right, bool)
    if first.shape != second.shape:
        raise ValueError(f"two models' answers to the same records are compared, not {first.shape} and {second.shape}")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


def _difference(value: Callable[[np.ndarray], np.ndarray], first: np.ndarray, second: np.ndarray) -> np.ndarray:
    one, other = np.asarray(value(first)), np.asarray(value(second))
    same = one == other  # two infinite scores differ by nothing
    return np.subtract(one, other, out=np.zeros_like(one), where=~same)


def _middle(values: np.ndarray, level: float) -> tuple[float, float]:
    # Where a score can be infinite, interpolation between two of them has no value.
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    return float(low), float(high)


def _check(tally: np.ndarray, level: float) -> None:
    if tally.ndim != 2 or not len(tally):
        raise ValueError(f"counts of one unit or more are needed, not {tally.shape}")
    if not 0 < level < 1:
        raise ValueError(f"level has to lie between 0 and 1, not {level}")


def _resamples(units: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """How often each unit is drawn, float64 (some rounds, units)."""
    draws = np.random.default_rng([seed, 0])
    for some in _blocks(units, rounds):
        weights = np.empty((some, units))
        for row in weights:
            row[:] = np.bincount(draws.integers(units, size=units), minlength=units)
        yield weights


def _coins(units: int, rounds: int, seed: int) -> Iterator[np.ndarray]:
    """1 or -1 for each unit, float64 (some rounds, units)."""
    draws = np.random.default_rng([seed, 1])
    for some in _blocks(units, rounds):
        yield draws.integers(2, size=(some, units)) * 2.0 - 1.0


def _blocks(units: int, rounds: int) -> Iterator[int]:
    size = max(1, BLOCK // units)
    for begin in range(0, rounds, size):
        yield min(size, rounds - begin)
