"""How processor time grows with a text: by ratios, so that a slow or busy machine gives the same answer."""

from __future__ import annotations

import time
from collections.abc import Callable

LINEAR = 2.6
"""Twice the text may take so many times as long. Quadratic work takes four times as long."""


def repeated(family: str) -> Callable[[int], str]:
    """Return a function that makes a text of so many characters from a few that are repeated."""
    return lambda length: (family * (length // len(family) + 1))[:length]


def ratio_of_doubling(work: Callable[[str], object], text_of: Callable[[int], str], size: int) -> float:
    """Return how many times as long work takes for a text of twice the size.

    Other programs may run beside it: it is measured up to three times, until it is linear, and the least ratio counts.
    """
    least = float("inf")
    for _ in range(3):
        least = min(least, seconds(work, text_of(2 * size), 2) / seconds(work, text_of(size), 2))
        if least <= LINEAR:
            break
    return least


def seconds(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """Return the processor time of work on a text, the least of several times."""
    least = float("inf")
    for _ in range(times):
        begin = time.process_time()
        work(text)
        least = min(least, time.process_time() - begin)
    return least
