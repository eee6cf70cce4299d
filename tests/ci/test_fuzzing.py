"""Fuzzing in CI: a minute for all targets, no target beyond its time, and a find is never lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.support.processes.fuzzing import fuzz

REPOSITORY = Path(__file__).resolve().parents[2]


def test_ci_runs_every_target_for_a_second() -> None:
    commands = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    (command,) = [line for line in commands if line.startswith("make fuzz")]
    assert command == "make fuzz FUZZ_SECONDS=1"
    targets = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^fuzz:.*\n\t(.*)$", targets, re.MULTILINE)
    assert recipe is not None and "FUZZ_SECONDS=$(FUZZ_SECONDS)" in recipe[1] and "pytest tests/fuzz" in recipe[1]


def test_no_example_is_tried_after_the_time() -> None:
    tried = []

    def slow(example: int) -> None:
        tried.append(example)
        time.sleep(0.05)

    fuzz(slow, st.integers(), seconds=0.3)
    assert 1 <= len(tried) <= 6  # a sleep is never shorter than 0.05 s


def test_an_example_is_tried_when_drawing_takes_longer_than_the_time() -> None:
    def drawn_slowly(example: int) -> int:
        time.sleep(0.05)
        return example

    tried: list[int] = []
    fuzz(tried.append, st.integers().map(drawn_slowly), seconds=0.01)
    assert tried


def test_fast_targets_get_new_examples_until_the_time_is_over() -> None:
    tried = []
    fuzz(tried.append, st.integers(), seconds=2.0)  # on a busy machine half a second was too short
    assert len(set(tried)) > 30  # a round has 25


def test_a_find_is_made_small_even_when_the_time_is_over() -> None:
    def breaks(example: int) -> None:
        time.sleep(0.01)
        assert example < 1_000

    with pytest.raises(AssertionError) as failure:
        for _ in range(200):
            fuzz(breaks, st.integers(min_value=0, max_value=2_000), seconds=0.05)
    assert "example=1000," in "\n".join(failure.value.__notes__)


def test_examples_among_the_tests_are_the_same_each_time() -> None:
    first: list[int] = []
    second: list[int] = []
    fuzz(first.append, st.integers(), examples=20, seconds=0)
    fuzz(second.append, st.integers(), examples=20, seconds=0)
    assert first == second and len(first) >= 20
