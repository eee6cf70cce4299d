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
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:  # the loop itself runs without Arrow, on any parts that have `rows` and `read`
    import pyarrow as pa

from models.training.columns import WORDS, Column, Row, read_rows

WINDOW = 8
"""Number of parts in memory at once."""


class ExamplePart(Protocol):
    """A stored part of a table with the columns of `examples`."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: list[str] | None = None) -> pa.Table: ...


@dataclass(frozen=True)
class _Window:
    """Rows of one window in the order they were read, and their shuffled order."""

    examples: list[Row]
    order: np.ndarray


@dataclass(frozen=True)
class _Plan:
    """Order of the parts in one epoch, and the first sample of each window."""

    order: np.ndarray
    starts: np.ndarray


class ExampleStream:
    """Endless, shuffled, addressable stream of examples.

    Args:
        parts: the parts of an examples table, in their stored order.
        seed: seed of the order.
        columns: the columns that are read, `input_ids` among them; no others are.

    Raises:
        ValueError: the parts have no rows.
    """

    def __init__(self, parts: Sequence[ExamplePart], seed: int, columns: Sequence[Column] = WORDS) -> None:
        self._parts = [part for part in parts if part.rows > 0]
        self.seed = seed
        self.columns = tuple(columns)
        self._cached: tuple[tuple[int, int], _Window] | None = None
        self._planned: tuple[int, _Plan] | None = None
        self.parts = len(self._parts)
        self.rows = sum(part.rows for part in self._parts)
        if self.rows == 0:
            raise ValueError("there are no examples to read: the examples table is empty")

    def take(self, position: int, count: int) -> list[Row]:
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

    def example(self, position: int) -> Row:
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
            order = _generator(self.seed, epoch, 0).permutation(len(self._parts))
            rows = np.array([self._parts[part].rows for part in order])
            starts = np.concatenate([[0], np.cumsum(rows)[:-1]])[::WINDOW]
            self._planned = (epoch, _Plan(order, starts))
        return self._planned[1]

    def _window(self, epoch: int, number: int, plan: _Plan) -> _Window:
        if self._cached is None or self._cached[0] != (epoch, number):
            self._cached = None  # frees the old window before the new one is read
            chosen = plan.order[number * WINDOW : (number + 1) * WINDOW]
            examples = [example for part in chosen for example in self._read(self._parts[part])]
            order = _generator(self.seed, epoch, number + 1).permutation(len(examples))
            self._cached = ((epoch, number), _Window(examples, order))
        return self._cached[1]

    def _read(self, part: ExamplePart) -> list[Row]:
        return read_rows(part.read(columns=[column.name for column in self.columns]), self.columns)


def _generator(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, epoch, purpose))))
