"""Rows in memory as a part of an examples table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from infra.schemas import EXAMPLES
from models.training.columns import WORDS, Column
from models.training.reader import ExampleStream

TYPES = {
    "input_ids": pa.list_(pa.uint32()),
    "word_starts": pa.list_(pa.uint16()),
    "label": pa.uint8(),
    "mentions": EXAMPLES.field("mentions").type,
}


class MemoryPart:
    """What `ExampleStream` reads, without a store."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    @property
    def rows(self) -> int:
        return len(self._rows)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        wanted = columns or ["input_ids", "word_starts"]
        return pa.table({name: pa.array([_plain(row[name]) for row in self._rows], TYPES[name]) for name in wanted})


def _plain(value: Any) -> Any:
    """Return numbers as Arrow takes them; mentions are dictionaries already."""
    return value if isinstance(value, list) else np.asarray(value).tolist()


def stream_of(rows: Sequence[Mapping[str, Any]], seed: int = 1, columns: Sequence[Column] = WORDS) -> ExampleStream:
    """The stream over these rows."""
    return ExampleStream([MemoryPart(rows)], seed, columns)
