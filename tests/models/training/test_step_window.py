"""Entries of the curves: the steps since the last one, whether or not the run was killed in between."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.training.step_window import StepWindow
from tests.support.training.synthetic_examples import training
from tests.support.training.tiny_training import build, run

NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_means_of_all_but_the_rate(losses: list[float]) -> None:
    window = StepWindow()
    for step, loss in enumerate(losses, start=1):
        window.add(step, {"loss": loss, "learning_rate": step / 10, "rtd_recall": math.nan})
    steps, means = window.close()
    assert [figures["loss"] for _, figures in steps] == losses
    assert means["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-9, abs=1e-6)
    assert means["learning_rate"] == len(losses) / 10 and math.isnan(means["rtd_recall"])
    assert window.close() == ([], {})


def test_skipped_step_spoils_no_mean() -> None:
    window = StepWindow()
    for step, loss in enumerate((4.0, math.nan, 6.0), start=1):
        window.add(step, {"loss": loss, "skipped_steps": float(step > 1)})
    assert window.close()[1] == {"loss": 5.0, "skipped_steps": 1.0}


def split(entries: list[Any], name: str) -> list[tuple[int, dict[str, float]]]:
    return [(step, figures) for step, one, figures in entries if one == name]


def test_every_step_is_reported_and_entries_are_means() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        each, _ = run(build(), training())
        settings = training(log_every=5)
        windows, states = run(build(), settings)
        resumed, _ = run(build(), settings, state=states[8])
    finally:
        torch.use_deterministic_algorithms(False)
    alone = dict(split(each, "train"))
    told = split(windows, "step")
    assert [step for step, _ in told] == list(range(1, 13))
    assert all(figures["loss"] == alone[step]["loss"] for step, figures in told)
    entries = dict(split(windows, "train"))
    assert list(entries) == [5, 10, 12]
    for last, first in ((5, 1), (10, 6), (12, 11)):
        expected = [alone[step]["loss"] for step in range(first, last + 1)]
        assert entries[last]["loss"] == pytest.approx(sum(expected) / len(expected), rel=1e-12)
    # Stopped at 8, in the middle of an entry: the entry is the same after a resume.
    assert repr(split(resumed, "step")) == repr(told[5:])  # as text, in which NaN is NaN
    assert split(resumed, "train")[0][1]["loss"] == entries[10]["loss"]
