"""Columns of a row: read as they are stored, cut together, and spans that lose a token dropped and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from infra.schemas import EXAMPLES
from models.training.columns import INPUT_IDS, MENTIONS, SECOND, WORDS, Second, Value, read_rows, row_type, shorten
from models.training.global_batch import read_global_batch
from models.training.reader import ExampleStream

LABEL = Value("label")
PAIRED = (*WORDS, MENTIONS, SECOND, LABEL)
MENTIONED = (*WORDS, MENTIONS)
CLS, SEP = 2, 3


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


@given(first=st.integers(1, 30), second=st.integers(1, 30), longest=st.integers(3, 64), data=st.data())
def test_sentences_of_a_pair_stay_neighbours(first: int, second: int, longest: int, data: st.DataObject) -> None:
    """The first loses words at its beginning and the second at its end, as plain lists say; mentions follow."""
    places = [*range(1, 1 + first), *range(2 + first, 2 + first + second)]
    starts = sorted({1, 2 + first} | data.draw(st.sets(st.sampled_from(places))))
    spans = sorted(data.draw(st.sets(st.tuples(st.sampled_from(places), st.integers(1, 5)), max_size=6)))
    one, other = [10 + n for n in range(first)], [100 + n for n in range(second)]
    ids = [CLS, *one, SEP, *other, SEP]
    mentions = [[start, start + size, 7, n] for n, (start, size) in enumerate(spans) if SEP not in ids[start:][:size]]
    row = row_type(("input_ids", "word_starts", "mentions", "second", "label"))(
        np.array(ids), np.array(starts), np.array(mentions, dtype=np.int64).reshape(-1, 4), 2 + first, 1
    )
    cut, dropped = shorten(row, PAIRED, longest)

    begins = {ids[start] for start in starts}
    if len(ids) > longest:
        one_room = max((max(longest, 5) - 3) // 2, max(longest, 5) - 3 - len(other))
        other_room = max(longest, 5) - 3 - min(one_room, len(one))
        if len(one) > one_room:
            one = one[-one_room:]
            one = next((one[n:] for n, token in enumerate(one) if token in begins), one)
        if len(other) > other_room:
            ends = [n for n in range(1, other_room + 1) if other[n] in begins]
            other = other[: ends[-1] if ends else other_room]
    expected = [CLS, *one, SEP, *other, SEP]
    assert cut.input_ids.tolist() == expected and (cut.second, cut.label) == (len(one) + 2, 1)
    assert len(expected) <= max(longest, 5) and one and other
    assert cut.word_starts.tolist() == [n for n, token in enumerate(expected) if token in begins]
    whole = [n for *_, n in mentions if set(ids[mentions_of(mentions, n)]) <= {*one, *other}]
    assert cut.mentions[:, 3].tolist() == whole and dropped == len(mentions) - len(whole)
    for start, behind, _, n in cut.mentions.tolist():
        assert expected[start:behind] == ids[mentions_of(mentions, n)]


def mentions_of(mentions: list[list[int]], number: int) -> slice:
    """The tokens of a mention in the row."""
    return next(slice(start, behind) for start, behind, _, n in mentions if n == number)


@given(title=st.integers(1, 30), name=st.integers(1, 9), longest=st.integers(3, 48))
def test_title_is_cut_at_its_end_and_the_name_that_is_asked_for_stays(title: int, name: int, longest: int) -> None:
    columns = (INPUT_IDS, Second("second", follows=False), LABEL)
    ids = [CLS, *range(10, 10 + title), SEP, *range(100, 100 + name), SEP]
    cut, _ = shorten(row_type(("input_ids", "second", "label"))(np.array(ids), 2 + title, 1), columns, longest)
    found = cut.input_ids.tolist()
    kept_title, kept_name = found[1 : cut.second - 1], found[cut.second : -1]
    assert found == [CLS, *kept_title, SEP, *kept_name, SEP]
    assert len(found) == min(len(ids), max(longest, 5))
    assert kept_title == ids[1 : 1 + len(kept_title)] and kept_title
    if len(kept_title) > 1:
        assert len(kept_name) == name
    assert kept_name == ids[2 + title : 2 + title + len(kept_name)] and kept_name


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
