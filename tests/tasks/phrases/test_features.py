"""Features equal their definitions, computed plainly."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from tasks.phrases.features import features_of, word_facts
from tasks.phrases.patterns import mine, windows_of

END, COMMA = -11, -2
WORDS = ["糖尿病", "肾病", "的", "患者", "3"]


def segments() -> list[list[int]]:
    drawn = random.Random(1)
    made = [[drawn.choice([0, 1, 2, 3, 4, COMMA]) for _ in range(12)] for _ in range(60)]
    return [[*segment, 0, 1] if place % 2 else [0, 1, *segment] for place, segment in enumerate(made)]


SEGMENTS = segments()
STREAM = np.array([code for segment in SEGMENTS for code in [*segment, END]], dtype=np.int32)
LEVELS = list(mine(windows_of([STREAM], range(len(WORDS)), 3, END), len(WORDS), 3))
FACTS = word_facts(LEVELS[0], WORDS, frozenset("的"), len(SEGMENTS))
FEATURES = features_of(LEVELS, FACTS, int((STREAM >= 0).sum()))


def places(run: tuple[int, ...]) -> list[int]:
    return [at for at in range(len(STREAM)) if tuple(STREAM[at : at + len(run)].tolist()) == run]


def entropy(neighbours: list[int]) -> float:
    counts = Counter(max(code, -1) for code in neighbours)
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


def row(run: tuple[int, ...]) -> list[float]:
    """Features of one sequence."""
    number = len(run) - 1
    return FEATURES[number][LEVELS[number].ids.tolist().index(list(run))].tolist()


@pytest.mark.parametrize("run", [(0,), (3,), (0, 1), (1, 2), (0, 1, 2)])
def test_frequency_and_context(run: tuple[int, ...]) -> None:
    at = places(run)
    before = [int(STREAM[place - 1]) if place else END for place in at]
    after = [int(STREAM[place + len(run)]) for place in at]
    left, right = entropy(before), entropy(after)
    starts, ends = (sum(code < 0 for code in side) / len(at) for side in (before, after))
    borders = [-1, *np.flatnonzero(STREAM == END).tolist()]
    shares = []
    for place in at:
        begin = max(border for border in borders if border < place) + 1
        end = min(border for border in borders if border > place)
        shares.append((place - begin) / (end - begin))
    wanted = [math.log(len(at)), left, right, min(left, right), starts, ends, sum(shares) / len(shares)]
    assert row(run)[:7] == pytest.approx(wanted)


@pytest.mark.parametrize("run", [(0, 1), (1, 2), (0, 1, 2)])
def test_mutual_information_of_the_likeliest_parts(run: tuple[int, ...]) -> None:
    words = int((STREAM >= 0).sum())

    def chance(part: tuple[int, ...]) -> float:
        return len(places(part)) * len(part) / words

    product = max(chance(run[:cut]) * chance(run[cut:]) for cut in range(1, len(run)))
    information = math.log(chance(run) / product)
    larger = max(len(places(run[:-1])), len(places(run[1:])), len(places(run)))
    wanted = [information, information / -math.log(chance(run)), information * len(places(run))]
    assert row(run)[-5:] == pytest.approx([*wanted, len(places(run)) / larger, len(run)])


def test_share_of_longer_sequences() -> None:
    longer = [(word, 0, 1) for word in range(5)] + [(0, 1, word) for word in range(5)]
    most = max(len(places(run)) for run in longer)
    assert row((0, 1))[7] == pytest.approx(most / len(places((0, 1))))
    assert row((0, 1, 2))[7] == 0  # nothing longer was mined


def test_words_idf_length_and_stop_words() -> None:
    idf = [math.log(len(SEGMENTS) / sum(word in segment for segment in SEGMENTS)) for word in range(5)]
    assert FACTS.idf.tolist() == pytest.approx(idf)
    assert FACTS.is_stop.tolist() == [False, False, True, False, True]  # the number too
    characters, *rest = row((1, 2))[8:15]
    assert characters == 3
    pair = idf[1:3]
    assert rest == pytest.approx([sum(pair) / 2, 0.5, min(pair), max(pair), 0, 1])


def test_all_features_are_finite() -> None:
    assert [len(rows) for rows in FEATURES] == [len(level.counts) for level in LEVELS]
    assert all(np.isfinite(rows).all() for rows in FEATURES)
