"""Batches of texts: large enough for an efficient pass over arrays, small enough for memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

CHARACTERS_AT_ONCE = 1 << 18
"""Characters per pass: few enough that their arrays fit a processor's cache."""

T = TypeVar("T")


def batches_of(
    items: Iterable[T],
    characters: int = CHARACTERS_AT_ONCE,
    length: Callable[[T], int] = len,  # type: ignore[assignment]
) -> Iterator[list[T]]:
    """Yield the items in order; a batch ends with the item that fills it. `length` counts an item's characters."""
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
