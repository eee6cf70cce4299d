"""Training stream: one order for any number of workers, addressable at any step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.training.reader import WINDOW, ExampleStream


class MemoryPart:
    """A part whose rows are numbered from `first`; counts how often it is read."""

    def __init__(self, first: int, rows: int) -> None:
        self.first, self.rows, self.reads = first, rows, 0

    def read(self, columns: list[str] | None = None) -> pa.Table:
        self.reads += 1
        numbers = range(self.first, self.first + self.rows)
        table = pa.table(
            {
                "input_ids": pa.array([[2, number + 5, 3] for number in numbers], pa.list_(pa.uint32())),
                "word_starts": pa.array([[1] for _ in numbers], pa.list_(pa.uint16())),
            }
        )
        return table.select(columns) if columns else table


def parts_of(sizes: list[int]) -> list[MemoryPart]:
    starts = np.cumsum([0, *sizes])
    return [MemoryPart(int(first), rows) for first, rows in zip(starts, sizes, strict=False)]


def numbers(stream: ExampleStream, step: int, batch: int) -> list[int]:
    return [int(row.input_ids[1]) - 5 for row in stream.take(step * batch, batch)]


sizes_lists = st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(lambda sizes: sum(sizes) > 0)


@settings(max_examples=60, deadline=None)
@given(sizes=sizes_lists, seed=st.integers(0, 5), epochs=st.integers(1, 3))
def test_every_epoch_holds_every_row_once(sizes: list[int], seed: int, epochs: int) -> None:
    stream = ExampleStream(parts_of(sizes), seed)
    seen = [numbers(stream, step, 1)[0] for step in range(epochs * sum(sizes))]
    for epoch in range(epochs):
        assert sorted(seen[epoch * sum(sizes) : (epoch + 1) * sum(sizes)]) == list(range(sum(sizes)))


@settings(max_examples=40, deadline=None)
@given(sizes=sizes_lists, step=st.integers(0, 20))
def test_step_is_the_same_whether_reached_or_entered(sizes: list[int], step: int) -> None:
    batch = max(1, sum(sizes) // 3)
    reached = ExampleStream(parts_of(sizes), 3)
    for earlier in range(step):
        reached.take(earlier * batch, batch)
    assert numbers(reached, step, batch) == numbers(ExampleStream(parts_of(sizes), 3), step, batch)


def test_seed_and_epoch_change_the_order() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return numbers(ExampleStream(parts_of([50] * 4), seed), epoch, 200)

    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != list(range(200))


def test_entering_late_reads_one_window_only() -> None:
    parts = parts_of([10] * (4 * WINDOW))
    ExampleStream(parts, 0).take(3 * WINDOW * 10, 10)
    assert sum(part.reads for part in parts) == WINDOW


def test_too_little_text_error_names_the_remedy() -> None:
    with pytest.raises(ValueError, match="no example"):
        ExampleStream(parts_of([0, 0]), 0)
    with pytest.raises(ValueError, match=r"only 5 examples.*training\.batch_size"):
        ExampleStream(parts_of([5]), 0).take(0, 6)
