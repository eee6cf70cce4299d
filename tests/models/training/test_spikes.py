"""Rule for skipped steps, and the end of a run with too many of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.training.spikes import ENOUGH, SpikeGuard


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf)])
def test_steps_that_are_not_finite_are_always_skipped(loss: float, norm: float) -> None:
    assert "not finite" in (SpikeGuard(None, 10).objection(loss, norm) or "")


def test_loss_far_over_the_median_is_skipped_and_not_remembered() -> None:
    guard = SpikeGuard(3.0, 10)
    assert guard.objection(1000.0, 1.0) is None  # nothing to compare with yet
    for _ in range(ENOUGH):
        assert guard.objection(2.0, 1.0) is None
    for _ in range(200):
        assert "over 3 times the median" in (guard.objection(6.1, 1.0) or "")
    assert guard.objection(5.9, 1.0) is None
    assert SpikeGuard(None, 10).objection(1e30, 1.0) is None


def test_too_many_in_a_hundred_steps_end_the_run_with_step_and_terms() -> None:
    guard = SpikeGuard(None, 2)
    for step in range(1, 152):
        bad = step in (1, 50, 101, 151)  # never three within a hundred
        said = guard.objection(math.nan if bad else 1.0, 1.0)
        if said is not None:
            guard.skip(step, said, {})
    said = guard.objection(math.nan, 1.0)
    assert said is not None and guard.skipped == [1, 50, 101, 151]
    with pytest.raises(FloatingPointError, match=r"step 152: the loss .*\(mlm nan, rtd 0\.5\)\. 3 of the last 100"):
        guard.skip(152, said, {"mlm": math.nan, "rtd": 0.5})


def test_steps_of_other_tasks_do_not_count() -> None:
    """Every tenth step is the task's: its first three lie within thirty steps of all, its next within three hundred."""
    guard = SpikeGuard(None, 2)
    for number in range(1, 121):
        said = guard.objection(math.nan if number in (1, 60, 120) else 1.0, 1.0)
        if said is not None:
            guard.skip(10 * number, said, {})
    assert guard.skipped == [10, 600, 1200]
    assert guard.objection(1.0, 1.0) is None
    said = guard.objection(math.inf, 1.0)
    assert said is not None
    with pytest.raises(FloatingPointError, match=r"step 1220: .* 3 of the last 100 steps"):
        guard.skip(1220, said, {})


@given(st.lists(st.floats(0.1, 10.0) | st.just(math.nan), max_size=80), st.integers(0, 80))
def test_resumed_guard_decides_as_one_that_never_stopped(losses: list[float], stop: int) -> None:
    whole, first, second = (SpikeGuard(1.5, 1000) for _ in range(3))
    verdicts: list[list[str | None]] = [[], []]
    for number, loss in enumerate(losses):
        if number == stop:
            second.resume(first.state())
            first = second
        for guard, said in zip((whole, first), verdicts, strict=True):
            said.append(guard.objection(loss, 1.0))
            if said[-1]:
                guard.skip(number + 1, said[-1], {})
    assert verdicts[0] == verdicts[1] and whole.skipped == first.skipped
