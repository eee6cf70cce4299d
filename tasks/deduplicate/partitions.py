"""Partitions of texts and documents, so that no process holds what belongs to all of them.

Keys are hashes: texts are cut by the upper bits of their keys into partitions of about equal size, in the order of the
keys. Documents are cut as their parts are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import polars as pl

from infra.artifacts import Part

DOCUMENTS_PER_PARTITION = 4_000_000
"""Documents of one partition; a corpus of fewer is not cut, and its pairs are handled in one process."""


def partitions_for(documents: int) -> int:
    """Return into how many partitions the texts of a corpus are cut."""
    return max(1, -(-documents // DOCUMENTS_PER_PARTITION))


def partition_of(keys_high: pl.Series, partitions: int) -> np.ndarray:
    """Return the partition of each text, from the first half of its key: int64 (N,), ascending with the keys."""
    upper = keys_high.to_numpy() >> np.uint64(32)
    return ((upper * np.uint64(partitions)) >> np.uint64(32)).astype(np.int64)


def borders_of(parts: Sequence[Part]) -> tuple[int, ...]:
    """Return the row at which each part begins when rows count across all parts, and the number of all rows."""
    return tuple(itertools.accumulate((part.rows for part in parts), initial=0))


def within_parts(rows: pl.Series, borders: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of each row and the row counted from the part's first: int64 (N,) both."""
    row = rows.to_numpy().astype(np.int64)
    part = np.searchsorted(borders, row, side="right") - 1
    return part, row - np.asarray(borders, dtype=np.int64)[part]
