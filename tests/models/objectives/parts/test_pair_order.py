"""Exchanged pairs: every token, word and span moves with its sentence, and labels follow their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.objectives.parts.pair_order import by_sequence, exchanged, order_labels
from models.training.columns import row_type

CLS, SEP = 2, 3


@st.composite
def pairs(draw: st.DrawFn) -> dict[str, Any]:
    """A pair whose tokens all differ, with words and with mentions that lie in one sentence each."""
    sizes = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    second = sizes[0] + 2
    tokens = [*range(10, 10 + sizes[0])], [*range(100, 100 + sizes[1])]
    mentions, starts = [], []
    for begin, size in ((1, sizes[0]), (second, sizes[1])):
        starts += sorted(draw(st.sets(st.integers(begin, begin + size - 1))))
        borders = sorted(draw(st.sets(st.integers(begin, begin + size), max_size=6)))
        mentions += [[first, behind, 7 * first, 1] for first, behind in zip(borders[::2], borders[1::2], strict=False)]
    return {
        "input_ids": np.array([CLS, *tokens[0], SEP, *tokens[1], SEP], dtype=np.uint32),
        "word_starts": np.array(starts, dtype=np.uint16),
        "second": second,
        "mentions": np.array(mentions, dtype=np.int64).reshape(-1, 4),
    }


def named(row: dict[str, Any]) -> list[tuple[list[int], int, int]]:
    """The mentions of a row by their tokens."""
    ids = row["input_ids"].tolist()
    return [(ids[first:behind], entity, surface) for first, behind, entity, surface in row["mentions"].tolist()]


@given(pairs())
def test_exchanged_pair_is_that_of_lists(row: dict[str, Any]) -> None:
    ids, second = row["input_ids"].tolist(), row["second"]
    first_sentence, second_sentence = ids[1 : second - 1], ids[second:-1]
    found = exchanged(row, ("mentions",))
    assert found["input_ids"].tolist() == [CLS, *second_sentence, SEP, *first_sentence, SEP]
    assert found["second"] == len(second_sentence) + 2
    begins = {ids[start] for start in row["word_starts"]}
    assert found["word_starts"].tolist() == [n for n, token in enumerate(found["input_ids"]) if token in begins]
    assert sorted(named(found)) == sorted(named(row))
    assert (np.diff(found["mentions"][:, 0]) > 0).all()
    again = exchanged(found, ("mentions",))
    for name, value in row.items():
        assert np.array_equal(again[name], value), name


def test_named_rows_are_exchanged_too_and_stay_as_they_were() -> None:
    ids = np.array([CLS, 10, 11, SEP, 12, SEP])
    row = row_type(("input_ids", "word_starts", "second"))(ids, np.array([1, 4]), 4)
    found = exchanged(row)
    assert found.keys() == {"input_ids", "word_starts", "second"}
    assert found["input_ids"].tolist() == [CLS, 12, SEP, 10, 11, SEP] and found["word_starts"].tolist() == [1, 3]
    assert row.input_ids.tolist() == [CLS, 10, 11, SEP, 12, SEP]


def test_labels_are_those_of_their_rows_in_any_order() -> None:
    rows = np.array([40, 7, 12, 9_000])
    labels = order_labels(3, 5, rows)
    assert order_labels(3, 5, rows[::-1]).tolist() == labels[::-1].tolist()
    of_row = dict(zip(rows.tolist(), labels.tolist(), strict=True))
    in_batch = np.array([9_000, 40, 12, 7])
    assert by_sequence(labels, rows, in_batch).tolist() == [of_row[row] for row in in_batch.tolist()]
    assert set(order_labels(3, 5, np.arange(50)).tolist()) == {0, 1}
    assert order_labels(3, 5, np.arange(50)).tolist() != order_labels(3, 6, np.arange(50)).tolist()
