"""Columns of a row: read as they are stored, cut together, and spans that lose a token dropped and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from infra.schemas import EXAMPLES
from models.training.columns import MENTIONS, SECOND, WORDS, Value, read_rows, row_type, shorten
from models.training.global_batch import read_global_batch
from models.training.reader import ExampleStream

LABEL = Value("label")
PAIRED = (*WORDS, SECOND, LABEL)
MENTIONED = (*WORDS, MENTIONS)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {
        "input_ids": pa.list_(pa.uint32()),
        "word_starts": pa.list_(pa.uint16()),
        "mentions": EXAMPLES.field("mentions").type,
        "second": pa.uint16(),
        "label": pa.uint8(),
    }
    return pa.table({name: pa.array([row[name] for row in rows], kinds[name]) for name in rows[0]})


def test_rows_come_back_as_they_are_stored() -> None:
    mentions: list[list[dict[str, int]]] = [[{"start": 1, "end": 3, "entity": 70_000, "surface": 2}], []]
    rows = [
        {"input_ids": [2, 9, 8, 7, 3], "word_starts": [1, 3], "mentions": some, "second": 3, "label": 1}
        for some in mentions
    ]
    first, other = read_rows(table(rows), (*MENTIONED, SECOND, LABEL))
    assert first.input_ids.tolist() == [2, 9, 8, 7, 3] and first.word_starts.tolist() == [1, 3]
    assert first.mentions.tolist() == [[1, 3, 70_000, 2]] and other.mentions.shape == (0, 4)
    assert first.mentions.dtype == np.int64
    assert (first.second, first.label) == (3, 1)


@given(words=st.lists(st.integers(1, 4), min_size=1, max_size=12), longest=st.integers(3, 40), data=st.data())
def test_spans_remain_whole_or_are_dropped(words: list[int], longest: int, data: st.DataObject) -> None:
    length = sum(words) + 2
    places = sorted(data.draw(st.sets(st.integers(1, length - 1), max_size=8)))
    borders = zip(places[::2], places[1::2], strict=False)
    spans = [[first, behind, number] for number, (first, behind) in enumerate(borders)]
    ids = np.arange(100, 100 + length)
    row = row_type(("input_ids", "word_starts", "mentions"))(
        ids, 1 + np.cumsum([0, *words[:-1]]), np.array(spans, dtype=np.int64).reshape(-1, 3)
    )
    cut, dropped = shorten(row, MENTIONED, longest)
    kept = set(cut.input_ids.tolist())
    whole = [span for span in spans if all(100 + place in kept for place in range(span[0], span[1]))]
    assert dropped == len(spans) - len(whole)
    assert [span[2] for span in cut.mentions.tolist()] == [span[2] for span in whole]
    for (first, behind, _), original in zip(cut.mentions.tolist(), whole, strict=True):
        assert cut.input_ids[first:behind].tolist() == ids[original[0] : original[1]].tolist()


@given(first=st.integers(1, 30), second=st.integers(1, 30), longest=st.integers(5, 64), data=st.data())
def test_pairs_keep_both_sentences_and_their_border(first: int, second: int, longest: int, data: st.DataObject) -> None:
    places = [*range(1, 1 + first), *range(2 + first, 2 + first + second)]
    starts = sorted({1, 2 + first} | data.draw(st.sets(st.sampled_from(places))))
    ids = np.array([2, *[10 + n for n in range(first)], 3, *[100 + n for n in range(second)], 3])
    row = row_type(("input_ids", "word_starts", "second", "label"))(ids, np.array(starts), 2 + first, 1)
    cut, dropped = shorten(row, PAIRED, longest)
    found = cut.input_ids.tolist()
    assert dropped == 0 and cut.label == 1 and len(found) <= max(longest, 5)
    one, other = found[1 : cut.second - 1], found[cut.second : -1]
    assert found == [2, *one, 3, *other, 3]
    assert one == ids[1 : 1 + len(one)].tolist() and one  # each sentence keeps its beginning
    assert other == ids[2 + first : 2 + first + len(other)].tolist() and other
    assert [found[start] for start in cut.word_starts] == [ids[s] for s in starts if ids[s] in {*one, *other}]
    if len(ids) <= longest:
        assert found == ids.tolist()
    else:  # the shorter sentence is cut only where it is longer than half of the room
        assert len(one) == first or len(other) == second or min(first, second) > (longest - 3) // 2


def test_stream_reads_its_columns_and_counts_dropped_spans() -> None:
    class Part:
        rows = 4

        def read(self, columns: list[str] | None = None) -> pa.Table:
            assert columns == ["input_ids", "word_starts", "mentions"]
            mentions = [
                {"start": 1, "end": 2, "entity": 1, "surface": 0},
                {"start": 6, "end": 9, "entity": 2, "surface": 3},
            ]
            row = {"input_ids": [2, *range(10, 20), 3], "word_starts": list(range(1, 11)), "mentions": mentions}
            return table([row] * 4)

    batch = read_global_batch(ExampleStream([Part()], 0, MENTIONED), 0, size=3, longest=8)
    assert batch.dropped_spans == 3
    assert [row.mentions.tolist() for row in batch.rows] == [[[1, 2, 1, 0]]] * 3
