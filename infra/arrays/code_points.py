"""Texts as one array of code points, end to end, for passes over many texts at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def points_of(text: str) -> np.ndarray:
    """Return the code points of one text, uint32 (N,), read-only."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def code_points(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of all texts, uint32 (N,), and where each begins and the last ends, int64 (T + 1,).

    Lone surrogates are code points like any other.
    """
    return points_of("".join(texts)), np.cumsum([0, *map(len, texts)])
