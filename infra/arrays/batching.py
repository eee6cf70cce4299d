"""Batches of texts: enough characters together for one pass over arrays, and no more than fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

CHARACTERS_AT_ONCE = 1 << 18
"""Characters that go through one pass: their arrays fit a processor's cache."""

T = TypeVar("T")


def batches_of(
    items: Iterable[T],
    characters: int = CHARACTERS_AT_ONCE,
    length: Callable[[T], int] = len,  # type: ignore[assignment]
) -> Iterator[list[T]]:
    """Items in order; a batch ends with the item that fills it. `length` gives the characters of an item."""
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += length(item)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
