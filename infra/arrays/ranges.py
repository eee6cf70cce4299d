"""Many ranges of indices as one array, to gather stretches of a flat array at once."""

from __future__ import annotations

import numpy as np


def ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the numbers begin[i] to end[i] - 1 of all i, end to end: begin (2, 7), end (4, 8) give 2, 3, 7."""
    sizes = end - begin
    first = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(begin - first, sizes)
