"""Rows in memory as a part of an examples table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from infra.schemas import ENTITY_EXAMPLES, EXAMPLES
from models.training.columns import WORDS, Column
from models.training.reader import ExampleStream

TYPES = {
    "input_ids": pa.list_(pa.uint32()),
    "word_starts": pa.list_(pa.uint16()),
    "second": pa.uint16(),
    "label": pa.uint8(),
    "mentions": EXAMPLES.field("mentions").type,
    "entities": ENTITY_EXAMPLES.field("entities").type,
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
        return pa.table(
            {name: pa.array([_plain(row[name], TYPES[name]) for row in self._rows], TYPES[name]) for name in wanted}
        )


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return numbers as Arrow takes them; rows of an array of spans as dictionaries, as lists have them."""
    if isinstance(value, list):
        return value
    plain = np.asarray(value).tolist()
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [dict(zip((field.name for field in kind.value_type), one, strict=True)) for one in plain]
    return plain


def stream_of(rows: Sequence[Mapping[str, Any]], seed: int = 1, columns: Sequence[Column] = WORDS) -> ExampleStream:
    """The stream over these rows."""
    return ExampleStream([MemoryPart(rows)], seed, columns)
