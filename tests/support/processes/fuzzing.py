"""Running a fuzz target: a few seconds among the tests, as long as one likes by `make fuzz`."""

from __future__ import annotations

import math
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
"""Most examples that are drawn from one seed before the next is taken."""
PER_SECOND = 50
"""Examples of a round for each second, so that a target that has one second does not draw 1,000."""


def fuzz(
    target: Callable[[Any], None], strategy: SearchStrategy[Any], examples: int = EXAMPLES, seconds: float = SECONDS
) -> None:
    """Call the target with examples; what fails is made small and reported by hypothesis.

    Among the tests the examples are the same every time: what a fuzzer finds by chance is for `make fuzz` and for the
    minute in CI. After the time given no further example is tried, unless one has failed: it is then made small.

    Args:
        target: takes an example; any exception is a find.
        strategy: draws examples.
        examples: number of them among the tests.
        seconds: how long examples are tried, from the first one on; 0: those of the tests.
    """
    until = math.inf
    has_failed = False

    def timed(example: Any) -> None:
        nonlocal has_failed, until
        # The clock starts here: on a busy machine hypothesis can take longer to begin than a short time lasts, and a
        # target would pass without one example tried.
        until = min(until, time.monotonic() + seconds)
        if seconds and not has_failed and time.monotonic() >= until:
            return
        try:
            target(example)
        except BaseException:
            has_failed = True
            raise

    while True:
        runs = settings(
            max_examples=max(1, min(ROUND, int(seconds * PER_SECOND))) if seconds else examples,
            deadline=None,
            database=None,
            derandomize=not seconds,
            suppress_health_check=list(HealthCheck),
        )(given(strategy)(timed))
        (seed(time.time_ns())(runs) if seconds else runs)()
        if time.monotonic() >= until:
            return
