"""Intervals and tests against scipy and against plain resampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, permutation_test
from sklearn.metrics import f1_score

from tasks.metrics.scores import METRICS
from tasks.metrics.significance import bootstrap_interval, compare, mcnemar

RECORDS = 300


def _answers(share_right: float, seed: int) -> tuple[list[str], list[str]]:
    draws = np.random.default_rng(seed)
    gold = draws.integers(4, size=RECORDS)
    noise = draws.integers(4, size=RECORDS)
    predicted = np.where(np.random.default_rng(seed + 1).random(RECORDS) < share_right, gold, noise)
    return [str(one) for one in gold], [str(one) for one in predicted]


def test_interval_matches_scipy() -> None:
    gold, predicted = _answers(0.7, 0)
    metric = METRICS["accuracy"]
    ours = bootstrap_interval(metric, metric.tally(gold, predicted), rounds=4_000, seed=3)
    right = np.array([one == other for one, other in zip(gold, predicted, strict=True)], float)
    theirs = bootstrap((right,), np.mean, n_resamples=4_000, method="percentile", random_state=4).confidence_interval
    assert ours.score == pytest.approx(right.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_interval_of_macro_f1_matches_plain_resampling() -> None:
    gold, predicted = _answers(0.6, 2)
    metric = METRICS["macro_f1"]
    ours = bootstrap_interval(metric, metric.tally(gold, predicted), rounds=2_000, seed=0)
    draws = np.random.default_rng(9)
    truth, answers = np.array(gold), np.array(predicted)
    plain = []
    for _ in range(400):
        drawn = draws.integers(RECORDS, size=RECORDS)
        plain.append(f1_score(truth[drawn], answers[drawn], average="macro"))
    low, high = np.quantile(plain, [0.025, 0.975])
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.02)
    assert ours.low < ours.score < ours.high


@pytest.mark.parametrize(("first", "second"), [(0.7, 0.7), (0.7, 0.62), (0.9, 0.6)])
def test_paired_test_matches_scipys_permutation_test(first: float, second: float) -> None:
    gold, one = _answers(first, 5)
    other = [str(label) for label in np.where(np.random.default_rng(8).random(RECORDS) < second, gold, "9")]
    metric = METRICS["accuracy"]
    counts = [metric.tally(gold, answers) for answers in (one, other)]
    ours = compare(metric, *counts, rounds=4_000, seed=1)
    theirs = permutation_test(
        (counts[0][:, 0], counts[1][:, 0]),
        lambda mine, yours, axis: mine.mean(axis) - yours.mean(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=4_000,
        random_state=2,
    )
    assert ours.difference == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.03)
    assert ours.low <= ours.difference <= ours.high


def test_model_does_not_differ_from_itself() -> None:
    gold, predicted = _answers(0.7, 0)
    metric = METRICS["macro_f1"]
    counts = metric.tally(gold, predicted)
    assert compare(metric, counts, counts) == (0.0, 0.0, 0.0, 1.0)


def test_unbounded_scores_can_be_compared() -> None:
    metric = METRICS["pair_score"]
    gold, groups = [2, 1, 0] * 20, [f"q{number // 3}" for number in range(60)]
    right = metric.tally(gold, gold, groups)
    wrong = metric.tally(gold, [-one for one in gold], groups)
    assert compare(metric, right, right) == (0.0, 0.0, 0.0, 1.0)
    compared = compare(metric, right, wrong)
    assert compared.difference == compared.high == float("inf")
    assert compared.p_value < 0.01
    assert bootstrap_interval(metric, right) == (float("inf"), float("inf"), float("inf"))


def test_false_positive_rate_matches_the_level() -> None:
    metric = METRICS["accuracy"]
    gold = ["1"] * 100
    draws = np.random.default_rng(0)
    alarms = 0
    for round_number in range(200):
        counts = [metric.tally(gold, [str(int(right)) for right in draws.random(100) < 0.8]) for _ in range(2)]
        alarms += compare(metric, *counts, rounds=199, seed=round_number).p_value <= 0.05
    assert alarms <= 20  # 10 are expected; more than 20 come once in 1,000 times


def test_results_depend_on_the_seed_and_not_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, predicted = _answers(0.7, 0)
    metric = METRICS["accuracy"]
    counts, other = metric.tally(gold, predicted), metric.tally(gold, gold[::-1])
    before = bootstrap_interval(metric, counts, rounds=50), compare(metric, counts, other, rounds=50)
    monkeypatch.setattr("tasks.metrics.significance.BLOCK", 7 * RECORDS)
    assert (bootstrap_interval(metric, counts, rounds=50), compare(metric, counts, other, rounds=50)) == before
    assert bootstrap_interval(metric, counts, rounds=50, seed=1) != before[0]


def test_mcnemar_is_the_binomial_test_of_records_that_one_model_gets_right() -> None:
    first = np.array([True] * 60 + [False] * 40)
    second = np.array([True] * 50 + [False] * 10 + [True] * 3 + [False] * 37)
    assert mcnemar(first, second) == pytest.approx(binomtest(10, 13).pvalue)
    assert mcnemar(first, first) == 1.0


def test_incomparable_counts_are_refused() -> None:
    metric = METRICS["accuracy"]
    one = metric.tally(["1"], ["1"])
    with pytest.raises(ValueError, match="same units"):
        compare(metric, one, metric.tally(["1", "0"], ["1", "0"]))
    with pytest.raises(ValueError, match="at least one unit"):
        bootstrap_interval(metric, metric.tally([], []))
    with pytest.raises(ValueError, match="level"):
        bootstrap_interval(metric, one, level=95)
    with pytest.raises(ValueError, match="same records"):
        mcnemar(np.array([True]), np.array([True, False]))
