"""Frequent sequences, their contexts, and counts of given sequences equal a plain count."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.phrases.candidates import word_ranges
from tasks.phrases.patterns import Level, Sequences, mine, pieces_of, windows_of

END, WORDS = -5, 4
SEGMENTS = st.lists(st.lists(st.integers(-2, 3), max_size=12), min_size=1, max_size=12)

Run = tuple[int, ...]


def stream_of(segments: list[list[int]]) -> np.ndarray:
    return np.array([code for segment in segments for code in [*segment, END]], dtype=np.int32)


def counted(segments: list[list[int]], longest: int) -> Counter[Run]:
    runs = [
        tuple(segment[start : start + length])
        for segment in segments
        for length in range(1, longest + 1)
        for start in range(len(segment) - length + 1)
    ]
    return Counter(run for run in runs if min(run) >= 0)


def mined(stream: np.ndarray, support: int, longest: int, ids: range = range(WORDS), size: int = 40) -> list[Level]:
    return list(mine(windows_of(pieces_of(stream, END, size), ids, longest, END), WORDS, support))


def entropy(neighbours: list[int]) -> float:
    counts = Counter(max(code, -1) for code in neighbours)
    return -sum(count / len(neighbours) * math.log(count / len(neighbours)) for count in counts.values())


def facts_of(segments: list[list[int]], longest: int) -> dict[Run, list[float]]:
    """Return, per run of words, the segments that contain it and its context at each occurrence."""
    seen: dict[Run, list[tuple[int, int, int, float]]] = defaultdict(list)
    for number, segment in enumerate(segments):
        closed = [END, *segment, END]
        for length in range(1, longest + 1):
            for at in range(1, len(closed) - length):
                place = (at - 1) / max(1, len(segment))
                seen[tuple(closed[at : at + length])].append((number, closed[at - 1], closed[at + length], place))
    facts = {}
    for run, rows in seen.items():
        numbers, before, after, places = (list(column) for column in zip(*rows, strict=True))
        shares = (sum(code < 0 for code in side) / len(rows) for side in (before, after))
        context = [entropy(before), entropy(after), *shares, sum(places) / len(rows)]
        facts[run] = [len(set(numbers)), *context]
    return facts


@settings(max_examples=200)
@given(segments=SEGMENTS, support=st.integers(1, 4), longest=st.integers(1, 5), size=st.integers(1, 40))
def test_mining_equals_plain_counting(segments: list[list[int]], support: int, longest: int, size: int) -> None:
    levels = mined(stream_of(segments), support, longest, size=size)
    plain = facts_of(segments, longest)
    found = {}
    for number, level in enumerate(levels, 1):
        assert level.length == number
        runs = [tuple(ids) for ids in level.ids.tolist()]
        assert runs == sorted(runs)
        found |= dict(zip(runs, level.counts.tolist(), strict=True))
        for run, holders, context in zip(runs, level.segments.tolist(), level.contexts.tolist(), strict=True):
            assert [holders, *context] == pytest.approx(plain[run])
    assert found == {run: count for run, count in counted(segments, longest).items() if count >= support}


@settings(max_examples=200)
@given(segments=SEGMENTS, support=st.integers(1, 3), places=st.integers(1, 30), size=st.integers(1, 40))
def test_shares_of_the_words_give_exactly_the_whole(
    segments: list[list[int]], support: int, places: int, size: int
) -> None:
    stream = stream_of(segments)
    counts = np.bincount(stream[stream >= 0], minlength=WORDS)
    ranges = word_ranges(counts, places)
    assert [word for ids in ranges for word in range(*ids)] == list(range(WORDS))
    assert all(stop == start + 1 or counts[start:stop].sum() <= places for start, stop in ranges)
    shares = [mined(stream, support, 3, range(*ids), size) for ids in ranges]
    for number, level in enumerate(mined(stream, support, 3)):
        parts = [share[number] for share in shares if len(share) > number]
        for name in ("ids", "counts", "segments", "contexts"):
            assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(level, name))


SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple), max_size=8, unique=True)


@settings(max_examples=300, deadline=None)
@given(segments=SEGMENTS, wanted=SEQUENCES, size=st.integers(1, 40))
def test_counts_equal_a_plain_count(segments: list[list[int]], wanted: list[Run], size: int) -> None:
    sequences = Sequences(wanted, WORDS)
    stream = stream_of(segments)
    pieces = list(pieces_of(stream, END, size))
    assert np.array_equal(np.concatenate(pieces), stream)
    assert all(piece[-1] == END for piece in pieces)
    for piece in pieces:
        sequences.add(piece)
    plain = counted(segments, 4)
    assert sequences.counts() == [plain[ids] for ids in wanted]
