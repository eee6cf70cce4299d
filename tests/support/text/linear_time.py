"""How processor time grows with a text: by ratios, so that a slow or busy machine gives the same answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")

LINEAR = 3.2
"""Twice the work may take so many times as long. Quadratic work takes four times as long."""
TURNS = 6
"""Most turns of a measurement."""


def repeated(family: str) -> Callable[[int], str]:
    """Return a function that makes a text of so many characters from a few that are repeated."""
    return lambda length: (family * (length // len(family) + 1))[:length]


def ratio_of_doubling(work: Callable[[Input], object], input_of: Callable[[int], Input], size: int) -> float:
    """Return how many times as long work takes for an input of twice the size.

    Other programs may run beside it: the two sizes are measured in turns, twice, and further until the ratio of the
    least times is linear.
    """
    once, twice = input_of(size), input_of(2 * size)
    least_once = least_twice = float("inf")
    for turn in range(TURNS):
        least_once = min(least_once, seconds(work, once))
        least_twice = min(least_twice, seconds(work, twice))
        if turn and least_twice < LINEAR * least_once:
            break
    return least_twice / least_once


def seconds(work: Callable[[Input], object], given: Input) -> float:
    """Return the processor time of work."""
    begin = time.process_time()
    work(given)
    return time.process_time() - begin
