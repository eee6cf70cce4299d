"""Connected components of a graph given as pairs: nodes connected by any path have the same label."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def connected_components(count: int, ones: npt.ArrayLike, others: npt.ArrayLike) -> Indices:
    """Return the smallest member of the component of each of `count` nodes, int64.

    Hooks the larger root below the smaller and shortens paths until nothing changes: about log(count) rounds of array
    operations over the pairs. The order of the pairs does not matter.
    """
    labels = np.arange(count, dtype=np.int64)
    one, other = np.asarray(ones, np.int64), np.asarray(others, np.int64)
    while True:
        roots = labels[one], labels[other]
        open_pairs = roots[0] != roots[1]
        if not open_pairs.any():
            return labels
        one, other = one[open_pairs], other[open_pairs]
        low, high = np.minimum(*roots)[open_pairs], np.maximum(*roots)[open_pairs]
        np.minimum.at(labels, high, low)
        while not np.array_equal(shorter := labels[labels], labels):
            labels = shorter
