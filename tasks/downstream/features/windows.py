"""Overlapping windows over a text that is longer than its encoder, and which window answers for which token.

The last window ends with the text, so all but a short text's are full. Where windows overlap, a token is answered for
by the window in which it lies farthest from an edge; of two equal ones the first. Training looks at the same tokens of
each window, so none counts twice.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Window(NamedTuple):
    """A window sees tokens [start, end) and answers for [kept_start, kept_end)."""

    start: int
    end: int
    kept_start: int
    kept_end: int


def cut_windows(length: int, size: int, overlap: int) -> list[Window]:
    """The windows over `length` tokens, at least one; the ranges they answer for follow on each other.

    Args:
        size: tokens a window can hold.
        overlap: tokens that neighbours share at least, at most half of `size`.

    Raises:
        ValueError: size or overlap cannot be.
    """
    if size < 1 or not 0 <= overlap <= size // 2:
        raise ValueError(f"windows of {size} tokens cannot overlap by {overlap}; at most by half of themselves")
    last = max(0, length - size)
    starts = [*range(0, last, size - overlap), last]
    # Windows are equally long: the token at the middle between two centres, and those before it, are the first one's.
    borders = [0, *((one + size - 1 + other) // 2 + 1 for one, other in pairwise(starts)), length]
    return [
        Window(start, min(start + size, length), *kept) for start, kept in zip(starts, pairwise(borders), strict=True)
    ]
