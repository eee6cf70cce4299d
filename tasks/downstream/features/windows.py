"""Overlapping windows over a text longer than the encoder's limit, and which window answers for which token.

The last window ends with the text, so all windows are full unless the text is short. Where windows overlap, the window
in which a token is farthest from an edge answers for it, the first of two equal ones. Training uses the same
assignment, so no token counts twice.
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
    """Return the windows over `length` tokens, at least one; the ranges that they answer for are contiguous.

    Args:
        size: maximum number of tokens in a window.
        overlap: minimum number of tokens that neighbours share, at most half of `size`.

    Raises:
        ValueError: size or overlap is impossible.
    """
    if size < 1 or not 0 <= overlap <= size // 2:
        raise ValueError(f"windows of {size} tokens cannot overlap by {overlap}; the limit is half their size")
    last = max(0, length - size)
    starts = [*range(0, last, size - overlap), last]
    # All windows are equally long, so neighbours meet halfway between their centres: windows [0, 10) and [6, 16) answer
    # for tokens up to and including 7, and from 8 on.
    borders = [0, *((one + size - 1 + other) // 2 + 1 for one, other in pairwise(starts)), length]
    return [
        Window(start, min(start + size, length), *kept) for start, kept in zip(starts, pairwise(borders), strict=True)
    ]
