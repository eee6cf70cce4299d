"""Running a fuzz target: a few seconds among the tests, as long as one likes by `make fuzz`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""Time for each target after its first examples."""

EXAMPLES = 40
ROUND = 1_000
"""Examples that are drawn from one seed before the next is taken."""


def fuzz(target: Callable[[Any], None], strategy: SearchStrategy[Any], examples: int = EXAMPLES) -> None:
    """Call the target with examples; what fails is made small and reported by hypothesis.

    Among the tests the examples are the same every time: what a fuzzer finds by chance is for `make fuzz`.

    Args:
        target: takes an example; any exception is a find.
        strategy: draws examples.
        examples: number of them among the tests.
    """
    until = time.monotonic() + SECONDS
    number = 0
    while True:
        runs = settings(
            max_examples=ROUND if SECONDS else examples,
            deadline=None,
            database=None,
            derandomize=not SECONDS,
            suppress_health_check=list(HealthCheck),
        )(given(strategy)(target))
        (seed(time.time_ns())(runs) if SECONDS else runs)()
        number += 1
        if time.monotonic() >= until:
            return
