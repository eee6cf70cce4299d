"""Costs beyond the measured sizes: figures are those of their pages, and the simulation keeps to what is known."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.scale import MEASURED, STORES, Run, Store, corpus_rows, exchange_seconds, simulated
from infra.settings import REPOSITORY
from tests.support.figures import numbers, stands_in

CALM = Run(
    steps=1_000,
    step_seconds=2.0,
    every=100,
    checkpoint_bytes=1e9,
    write_bytes=1e8,
    restart_seconds=60.0,
    hours_between_failures=1e9,
)
"""Ten checkpoints, each written in 10 of the 200 s between two."""


@pytest.mark.parametrize("name", MEASURED)
def test_measured_figure_stands_on_its_page(name: str) -> None:
    figure = MEASURED[name]
    written = numbers((REPOSITORY / "benchmarks" / "results" / figure.page).read_text(encoding="utf-8"))
    forms = (
        f"{figure.value:g}",
        f"{figure.value:,.0f}",
        f"{figure.value:.0%}",
        f"{figure.value:.1%}",
        f"{figure.value:.2f}",
    )
    assert any(stands_in(number, set(written)) for form in forms for number in numbers(form)), name


def test_cost_of_text_grows_with_the_text() -> None:
    rows = {row[0]: row for row in corpus_rows()}
    # 10,000 MB at 5.0 and 3.6 MB per CPU second are 2,000 and 2,778 s.
    assert rows["10"][3] == "0.6 to 0.8"
    assert rows["1,000"][3] == "55.6 to 77.2"


def test_run_without_failures_takes_its_steps() -> None:
    found = simulated(CALM)
    assert found == {"hours": pytest.approx(2_000 / 3600), "stalled": 0, "again": 0, "failures": 0, "written": 1e10}


def test_store_that_is_too_slow_holds_training_up() -> None:
    """A checkpoint takes 300 s, and 200 s are between two: from the second on training waits 100 s for each."""
    found = simulated(dataclasses.replace(CALM, write_bytes=1e9 / 300))
    assert found["stalled"] == pytest.approx(9 * 100 / 2_000)
    assert found["hours"] == pytest.approx((2_000 + 9 * 100) / 3600)


def test_failure_costs_the_steps_since_the_last_whole_checkpoint() -> None:
    failing = dataclasses.replace(CALM, hours_between_failures=0.5)
    found = [simulated(failing, seed) for seed in range(200)]
    assert 0.5 < sum(one["failures"] for one in found) / 200 < 2.5  # a run of half an hour and more, one each half hour
    for one in found:
        worst = one["failures"] * (200 + 10) / 2_000
        assert 0 <= one["again"] <= worst
        assert one["hours"] * 3600 == pytest.approx(2_000 * (1 + one["again"]) + one["failures"] * 60)


def test_exchange_is_bound_by_requests_or_by_bytes() -> None:
    free = Store("free", 0.0, 1e6, 1e9)
    assert exchange_seconds(4, 4, 8e6, 1, free) == pytest.approx(8 + 8)  # all of it written once and read once
    assert exchange_seconds(4, 4, 8e6, 4, free) == pytest.approx(2 + 2)
    slow = STORES[1]
    few, many = (exchange_seconds(senders, 40, 1e6, 16, slow) for senders in (100, 1_000))
    assert 7 < many / few < 13  # each receiver asks every sender
