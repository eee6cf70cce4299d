"""Rows of a batch, and the workers that compute them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.training.columns import WORDS, row_type, shorten
from models.training.global_batch import read_global_batch, share_out
from models.training.reader import ExampleStream


class RowsPart:
    """A part with rows of the given lengths; a row's tokens are its number."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.rows = lengths, len(lengths)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        ids = [[2, *[number + 5] * (length - 2), 3] for number, length in enumerate(self.lengths)]
        starts = [list(range(1, length - 1, 2)) for length in self.lengths]
        return pa.table(
            {
                "input_ids": pa.array(ids, pa.list_(pa.uint32())),
                "word_starts": pa.array(starts, pa.list_(pa.uint16())),
            }
        )


def stream_of(lengths: list[int], seed: int = 1) -> ExampleStream:
    return ExampleStream([RowsPart(lengths)], seed)


row_lengths = st.lists(st.integers(3, 40), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(lengths=row_lengths, workers=st.integers(1, 5), size=st.integers(1, 9) | st.none())
def test_every_row_is_computed_once_and_work_is_even(lengths: list[int], workers: int, size: int | None) -> None:
    lengths = lengths * workers  # no fewer rows than workers
    shares = share_out(lengths, workers, size)
    assert len(shares) == workers
    assert sorted(int(row) for share in shares for rows in share for row in rows) == list(range(len(lengths)))
    counts = [sum(len(rows) for rows in share) for share in shares]
    assert max(counts) - min(counts) <= 1
    loads = [sum(lengths[row] for rows in share for row in rows) for share in shares]
    assert max(loads) - min(loads) <= max(lengths)  # as good as equal, by whole rows
    for share in shares:
        assert all(0 < len(rows) <= (size or len(lengths)) for rows in share)
        assert max(map(len, share)) - min(map(len, share)) <= 1
    if size is None:
        assert all(len(share) == 1 for share in shares)
    elif size > 1:
        assert len({len(share) for share in shares}) == 1  # sharded models gather their weights together


def test_fewer_rows_than_workers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a batch of 2 rows cannot be shared among 3 workers.*training\.batch_size"):
        share_out([5, 6], 3, None)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(16, 30), min_size=8, max_size=40), data=st.data())
def test_token_batches_are_the_longest_runs_within_the_budget(lengths: list[int], data: st.DataObject) -> None:
    budget = data.draw(st.integers(30, sum(lengths) // 2))
    stream, position = stream_of(lengths), 0
    for _ in range(6):
        batch = read_global_batch(stream, position, tokens=budget)
        following = len(stream.example(batch.next_position).input_ids)
        assert sum(batch.lengths) <= budget
        assert sum(batch.lengths) + following > budget
        expected = stream_of(lengths).take(position, len(batch.rows))
        assert [row.input_ids.tolist() for row in batch.rows] == [row.input_ids.tolist() for row in expected]
        assert batch.next_position == position + len(batch.rows)
        position = batch.next_position


def test_impossible_token_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"batch_tokens is 20, but row 0 of the stream alone has 30 tokens"):
        read_global_batch(stream_of([30, 30]), 0, tokens=20)
    with pytest.raises(ValueError, match=r"batch_tokens is 100, but all 2 examples hold only 60 tokens"):
        read_global_batch(stream_of([30, 30]), 0, tokens=100)
    assert len(read_global_batch(stream_of([30, 30]), 0, tokens=100, whole_stream=True).rows) == 2
    assert len(read_global_batch(stream_of([30, 30]), 0, size=5, whole_stream=True).rows) == 2


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.integers(1, 6), min_size=1, max_size=20), longest=st.integers(3, 60))
def test_shortened_row_ends_after_a_whole_word(words: list[int], longest: int) -> None:
    ends = 1 + np.cumsum(words)
    starts = ends - np.array(words)
    row = row_type(("input_ids", "word_starts"))(
        input_ids=np.array([2, *range(5, 5 + sum(words)), 3]), word_starts=starts
    )
    (ids, kept), _ = shorten(row, WORDS, longest)
    assert ids[0] == 2 and ids[-1] == 3 and 3 <= len(ids) <= max(longest, 3)
    assert ids[:-1].tolist() == row.input_ids[: len(ids) - 1].tolist()
    assert kept.tolist() == [start for start in starts if start < len(ids) - 1]
    if len(row.input_ids) <= longest:
        assert len(ids) == len(row.input_ids)
    elif words[0] <= longest - 2:
        assert len(ids) - 1 in ends  # and no further word would fit
        assert not any(len(ids) - 1 < end <= longest - 1 for end in ends)
    assert shorten(row, WORDS, None) == (row, 0)


def test_rows_are_shortened_before_tokens_are_counted() -> None:
    batch = read_global_batch(stream_of([30] * 10), 0, tokens=60, longest=10)
    assert all(length <= 10 for length in batch.lengths) and len(batch.rows) >= 6
