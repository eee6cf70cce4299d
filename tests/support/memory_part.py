"""Rows in memory as a part of an examples table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from models.training.reader import ExampleStream


class MemoryPart:
    """What `ExampleStream` reads, without a store."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    @property
    def rows(self) -> int:
        return len(self._rows)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        types = {"input_ids": pa.list_(pa.uint32()), "word_starts": pa.list_(pa.uint16())}
        return pa.table({name: pa.array([list(row[name]) for row in self._rows], kind) for name, kind in types.items()})


def stream_of(rows: Sequence[Mapping[str, Any]], seed: int = 1) -> ExampleStream:
    """The stream over these rows."""
    return ExampleStream([MemoryPart(rows)], seed)
