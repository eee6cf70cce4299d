"""Examples for training, in one global order that any number of workers can enter at any step.

The order is a function of (seed, epoch) alone. Parts are shuffled; then the rows of every `WINDOW` consecutive parts
are shuffled together. The address of sample g in the endless stream therefore needs only the parts' row counts: a
restart reads nothing but the window it resumes in, and memory holds one window, whatever the size of the corpus. The
price: two rows of different parts share a batch only if their parts are in one window, so parts should hold many
documents each (they do: the encode stage fills them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:  # the loop itself runs without Arrow, on any parts that have `rows` and `read`
    import pyarrow as pa

WINDOW = 8
"""Number of parts in memory at once."""


class ExamplePart(Protocol):
    """A stored part of a table with the columns of `examples`."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: list[str] | None = None) -> pa.Table: ...


class Example(NamedTuple):
    """One packed row: token ids with [CLS] first and [SEP] last, and where its maskable words begin."""

    input_ids: np.ndarray
    word_starts: np.ndarray


@dataclass(frozen=True)
class _Window:
    """Rows of one window in the order they were read, and their shuffled order."""

    examples: list[Example]
    order: np.ndarray


@dataclass(frozen=True)
class _Plan:
    """Order of the parts in one epoch, and the first sample of each window."""

    order: np.ndarray
    starts: np.ndarray


class ExampleStream:
    """Endless, shuffled, addressable stream of examples.

    Args:
        parts: the parts of an `examples` table, in their stored order.
        seed: seed of the order.

    Raises:
        ValueError: the parts have no rows.
    """

    def __init__(self, parts: Sequence[ExamplePart], seed: int) -> None:
        self._parts = [part for part in parts if part.rows > 0]
        self._seed = seed
        self._cached: tuple[tuple[int, int], _Window] | None = None
        self._planned: tuple[int, _Plan] | None = None
        self.rows = sum(part.rows for part in self._parts)
        if self.rows == 0:
            raise ValueError("there are no examples to read: the examples table is empty")

    def take(self, position: int, count: int) -> list[Example]:
        """Return `count` examples from sample `position` of the stream (counted from 0).

        Raises:
            ValueError: they would contain a row twice.
        """
        if count > self.rows:
            raise ValueError(
                f"batch_size is {count} but there are only {self.rows} examples; a batch must not hold an "
                "example twice. Give more text or reduce training.batch_size."
            )
        return [self.example(position + index) for index in range(count)]

    def example(self, position: int) -> Example:
        """Return sample `position` of the stream; read its window if that is not the one in memory.

        Raises:
            infra.errors.DamagedArtifactError: a part of that window is missing or was changed; the message names it.
        """
        epoch, offset = divmod(position, self.rows)
        plan = self._plan(epoch)
        number = int(np.searchsorted(plan.starts, offset, side="right")) - 1
        window = self._window(epoch, number, plan)
        return window.examples[window.order[offset - plan.starts[number]]]

    def _plan(self, epoch: int) -> _Plan:
        if self._planned is None or self._planned[0] != epoch:
            order = _generator(self._seed, epoch, 0).permutation(len(self._parts))
            rows = np.array([self._parts[part].rows for part in order])
            starts = np.concatenate([[0], np.cumsum(rows)[:-1]])[::WINDOW]
            self._planned = (epoch, _Plan(order, starts))
        return self._planned[1]

    def _window(self, epoch: int, number: int, plan: _Plan) -> _Window:
        if self._cached is None or self._cached[0] != (epoch, number):
            self._cached = None  # frees the old window before the new one is read
            chosen = plan.order[number * WINDOW : (number + 1) * WINDOW]
            examples = [example for part in chosen for example in read_examples(self._parts[part])]
            order = _generator(self._seed, epoch, number + 1).permutation(len(examples))
            self._cached = ((epoch, number), _Window(examples, order))
        return self._cached[1]


def read_examples(part: ExamplePart) -> list[Example]:
    """Return all rows of a part as views into its columns (no copy per row)."""
    table = part.read(columns=["input_ids", "word_starts"])
    columns = (_rows_of(table.column(name)) for name in ("input_ids", "word_starts"))
    return [Example(*row) for row in zip(*columns, strict=True)]


def _rows_of(column: pa.ChunkedArray) -> list[np.ndarray]:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    offsets = array.offsets.to_numpy()
    values = array.values.to_numpy()
    return [values[start:end] for start, end in pairwise(offsets)]


def _generator(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, epoch, purpose))))
