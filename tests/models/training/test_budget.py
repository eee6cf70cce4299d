"""A budget of CPU seconds or of arithmetic: when a run ends, what counts, milestones, and exact resumption."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.training import loop
from models.training.budget import CpuMeter, passed, share_done
from models.training.checkpoint import load_state, save_state
from models.training.config import COSTS
from models.training.optimisation import learning_rate_left
from tests.support.training.synthetic_examples import training
from tests.support.training.tiny_training import build, run

BUDGET = 8.0


class Clock:
    """CPU time that passes only as an objective works: a second per training step, a hundred per evaluation."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def watch(self, objective: Any) -> Any:
        forward, metrics = objective.forward, objective.metrics

        def step(*given: Any) -> Any:
            self.now += 1.0
            return forward(*given)

        def judge(*given: Any) -> Any:
            self.now += 100.0
            return metrics(*given)

        objective.forward, objective.metrics = step, judge
        return objective


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "CpuMeter", lambda before: CpuMeter(before, clock))
    return clock


def budgeted(**changes: Any) -> dict[str, Any]:
    return training(steps=1_000_000, warmup_steps=2, cpu_seconds=BUDGET, **changes)


def same(left: Any, right: Any) -> bool:
    states = left.state_dict(), right.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_run_ends_when_its_budget_is_spent_on_training_alone(clock: Clock) -> None:
    entries, states = run(clock.watch(build()), budgeted(evaluate_every=3, checkpoint_every=5))
    steps = [figures for _, split, figures in entries if split == "step"]
    assert len(steps) == BUDGET and sorted(states) == [5, 8]
    assert [states[step]["cpu_seconds"] for step in (5, 8)] == [5.0, 8.0]
    held_out = {step: figures["cpu_seconds"] for step, split, figures in entries if split == "held_out"}
    assert held_out == {3: 3.0, 6: 6.0, 8: 8.0}
    # Warm-up over two steps, then what is left of the budget before the step.
    rates = [figures["learning_rate"] for figures in steps]
    assert rates == pytest.approx([1e-3 * share for share in (0.5, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8)])


@pytest.mark.parametrize("lost", [0, 1])
def test_resumed_run_has_spent_what_its_checkpoint_says(clock: Clock, lost: int) -> None:
    whole = clock.watch(build())
    _, states = run(whole, budgeted(checkpoint_every=3))
    clock.now += 5000.0 * lost  # another process's clock, and work that a kill has lost
    resumed = clock.watch(build())
    entries, again = run(resumed, budgeted(checkpoint_every=3), state=states[3])
    assert [step for step, split, _ in entries if split == "step"] == [4, 5, 6, 7, 8]
    assert again[8]["cpu_seconds"] == BUDGET and same(whole, resumed)


def test_run_killed_after_its_last_checkpoint_takes_no_further_step(clock: Clock) -> None:
    _, states = run(clock.watch(build()), budgeted())
    assert run(clock.watch(build()), budgeted(), state=states[8]) == ([], {})


def test_milestones_are_evaluated_and_saved_in_either_kind_of_run(clock: Clock) -> None:
    never = {"evaluate_every": 1000, "checkpoint_every": 1000}
    milestones = {"milestones": [0.5, 0.125, 0.25]}
    for settings in (budgeted(**never, **milestones), training(steps=8, **never, **milestones)):
        entries, states = run(clock.watch(build()), settings)
        assert sorted(states) == [1, 2, 4, 8]
        assert [step for step, split, _ in entries if split == "held_out"] == [1, 2, 4, 8]


def test_steps_still_end_a_run_whose_budget_is_larger(clock: Clock) -> None:
    _, states = run(clock.watch(build()), training(steps=6, cpu_seconds=100.0))
    assert max(states) == 6 and states[6]["cpu_seconds"] == 6.0


def test_older_checkpoint_has_spent_nothing(tmp_path: Any) -> None:
    _, states = run(build(), training(steps=4))
    assert states[4]["flops"] > 0.0
    older = {name: value for name, value in states[4].items() if name not in COSTS}
    save_state(older, tmp_path)
    assert [load_state(tmp_path)[name] for name in COSTS] == [0.0, 0.0]


def counted(objective: Any) -> tuple[Any, list[float]]:
    """The objective, and the model FLOPs of every batch that it is asked about."""
    seen: list[float] = []
    flops = objective.flops

    def count(batch: Any) -> float:
        seen.append(float(flops(batch)))
        return seen[-1]

    objective.flops = count
    return objective, seen


def test_arithmetic_ends_a_run_at_the_same_step_every_time() -> None:
    objective, seen = counted(build())
    run(objective, training(steps=6))
    assert len(seen) == 6 and len(set(seen)) > 1  # batches differ, so that a count of steps would not do
    spent = list(itertools.accumulate(seen))
    budget = spent[3] + 0.5 * seen[4]  # in the midst of the fifth step
    settings = training(steps=1_000_000, warmup_steps=2, flops=budget, checkpoint_every=2, evaluate_every=1000)
    whole = build()
    entries, states = run(whole, settings)
    assert sorted(states) == [2, 4, 5]
    assert [states[step]["flops"] for step in (2, 4, 5)] == pytest.approx([spent[1], spent[3], spent[4]])
    rates = [figures["learning_rate"] for _, split, figures in entries if split == "step"]
    expected = [0.5, *(1.0 - done / budget for done in spent[:4])]
    assert rates == pytest.approx([1e-3 * share for share in expected])
    assert [figures["flops"] for _, split, figures in entries if split == "held_out"] == pytest.approx([spent[4]])
    # A resumed run counts on, and ends with the same weights.
    resumed = build()
    _, again = run(resumed, settings, state=states[2])
    assert again[5]["flops"] == pytest.approx(spent[4]) and same(whole, resumed)


def test_micro_batches_cost_what_their_batch_costs() -> None:
    ends = [run(build(), training(steps=3, **changes))[1][3] for changes in ({}, {"micro_batch_size": 2})]
    assert ends[0]["flops"] == pytest.approx(ends[1]["flops"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpu_seconds": 0}, "cpu_seconds is 0.0; it must be over 0"),
        ({"flops": -1.0}, "flops is -1.0; it must be over 0"),
        ({"flops": 1e12, "cpu_seconds": 60.0}, "cpu_seconds and training.flops are both given"),
        ({"cpu_seconds": "1h"}, "cpu_seconds is '1h'; it must be a finite number or left out"),
        ({"milestones": [0.5, 1.0]}, "milestones is .*; it must be a list of numbers between 0 and 1"),
        ({"milestones": "half"}, "milestones is 'half'"),
    ],
)
def test_impossible_budgets_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"training.{message}"):
        loop.TrainingConfig(**training(**changes))


def test_cpu_meter_counts_this_process_and_no_pause() -> None:
    meter = CpuMeter(10.0)
    sum(number * number for number in range(300_000))
    worked = meter.read()
    with meter.paused():
        sum(number * number for number in range(3_000_000))
    assert 10.0 < worked <= meter.read() < worked + 0.05


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0, 1e6), st.floats(0.1, 1e6))
def test_share_grows_to_one(step: int, steps: int, spent: float, budget: float) -> None:
    share = share_done(step, steps, (7.0, None), (spent, budget))
    assert share == min(1.0, max(step / steps, spent / budget))
    assert (share == 1.0) == (step >= steps or spent >= budget)
    assert share_done(step + 1, steps, (spent + 1, budget), (7.0, None)) >= share


def test_milestone_is_passed_once() -> None:
    shares = [0.0, 0.1, 0.25, 0.26, 0.9, 1.0]
    found = [passed([0.25, 0.5], before, now) for before, now in itertools.pairwise(shares)]
    assert found == [False, True, False, True, False]


def test_rate_without_warm_up_begins_at_its_peak() -> None:
    assert learning_rate_left(0, peak=2.0, warmup_steps=0, left=1.0) == 2.0
    assert math.isclose(learning_rate_left(9, peak=2.0, warmup_steps=4, left=0.25), 0.5)
