"""Frequent sequences and counts are those that a plain count gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.phrase_patterns import Sequences, mine, pieces_of

END = -5
SEGMENTS = st.lists(st.lists(st.integers(-2, 3), max_size=12), min_size=1, max_size=12)


def stream_of(segments: list[list[int]]) -> np.ndarray:
    return np.array([code for segment in segments for code in [*segment, END]], dtype=np.int32)


def counted(segments: list[list[int]], longest: int) -> Counter[tuple[int, ...]]:
    runs = [
        tuple(segment[start : start + length])
        for segment in segments
        for length in range(1, longest + 1)
        for start in range(len(segment) - length + 1)
    ]
    return Counter(run for run in runs if min(run) >= 0)


@settings(max_examples=300, deadline=None)
@given(segments=SEGMENTS, support=st.integers(1, 4), longest=st.integers(1, 5))
def test_mining_finds_what_counting_finds(segments: list[list[int]], support: int, longest: int) -> None:
    stream = stream_of(segments)
    levels = mine(stream, 4, support, longest)
    found = {}
    for number, level in enumerate(levels, 1):
        assert level.length == number
        for node, (place, count) in enumerate(zip(level.first.tolist(), level.counts.tolist(), strict=True)):
            run = tuple(stream[place : place + level.length].tolist())
            found[run] = count
            places = np.flatnonzero(level.nodes == node)
            assert len(places) == count
            assert all(tuple(stream[at : at + level.length].tolist()) == run for at in places)
    assert found == {run: count for run, count in counted(segments, longest).items() if count >= support}


SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), max_size=8, unique=True)


@settings(max_examples=300, deadline=None)
@given(segments=SEGMENTS, wanted=SEQUENCES, size=st.integers(1, 40))
def test_counts_are_those_of_a_plain_count(segments: list[list[int]], wanted: list[tuple[int, ...]], size: int) -> None:
    sequences = Sequences(wanted, 4)
    stream = stream_of(segments)
    pieces = list(pieces_of(stream, END, size))
    assert np.array_equal(np.concatenate(pieces), stream)
    assert all(piece[-1] == END for piece in pieces)
    for piece in pieces:
        sequences.add(piece)
    plain = counted(segments, 4)
    assert sequences.counts() == [plain[ids] for ids in wanted]
