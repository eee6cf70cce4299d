"""The fast search by arrays gives what plain search and reordering give, and one text at a time what many give."""

from __future__ import annotations

import csv
import pickle
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalise.normaliser import Normaliser
from tasks.normalise.queries.candidates import find
from tasks.normalise.queries.spelling import Words
from tasks.normalise.reading import SenseIndex
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.categories import CategoryIndex
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.icd_categories import categories_of
from tasks.retrieve.sums import best_places, in_turn

LABELLED = Path(__file__).parents[2] / "support" / "terms" / "diagnoses_tuning.csv"
TEXTS = [row["query"] for row in csv.DictReader(LABELLED.read_text(encoding="utf-8").splitlines())]
CODES = [f"{chapter}{number:02d}.{place}" for chapter in "ABCDEFGHIJKLMN" for number in range(6) for place in range(4)]


class Plain:
    """An index that is not known to be in this process, so that its candidates are reordered one by one."""

    def __init__(self, index: EmbeddedIndex) -> None:
        self._index = index

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        return self._index.search(terms, k)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedIndex:
    names = TEXTS[: len(CODES)]
    pairs = zip(CODES, names, reversed(names), strict=True)
    entries = [Entry(code, name, (other,), ("graph",)) for code, name, other in pairs]
    return EmbeddedIndex.build([*entries, Entry("", "没有编码的病")], tmp_path_factory.mktemp("index"))


def plain_scores(index: EmbeddedIndex, text: str) -> list[float]:
    """Add up the weights of a text's tokens in Python, document by document."""
    sums: dict[int, float] = defaultdict(float)
    (tokens,) = index.fields.query_tokens([text])
    for field, held in tokens.items():
        for token in held:
            row = index._rows[field].get(token)
            if row is not None:
                for place in range(index._first_posting[row], index._first_posting[row + 1]):
                    sums[int(index._documents[place])] += float(index._weights[place])
    best = [0.0] * len(index.codes)
    for entry, (first, end) in enumerate(zip(index._first_document[:-1], index._first_document[1:], strict=True)):
        best[entry] = max(float(np.float32(sums[document])) for document in range(first, end))
    return best


@settings(max_examples=25)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3), st.integers(1, 40))
def test_arrays_give_what_loops_give(index: EmbeddedIndex, texts: list[str], k: int) -> None:
    assert [scores.tolist() for scores in index.scores(texts)] == [plain_scores(index, text) for text in texts]
    assert index.categories is not None
    fast: CandidateIndex = CategoryIndex(index, index.categories)
    assert fast.search(texts, k) == CategoryIndex(Plain(index), index.categories).search(texts, k)


def test_one_text_at_a_time_gets_what_many_get(index: EmbeddedIndex) -> None:
    texts = [*TEXTS[::7], f"{TEXTS[0]}、{TEXTS[5]}", "", "否认高血压", TEXTS[0]]
    normaliser = Normaliser(index.folder)
    alone = [normaliser.normalise([text])[0] for text in texts]
    assert normaliser.normalise(texts) == alone == list(normaliser.stream(texts))


def plain_merge(rows: list[list[tuple[int, float]]], k: int) -> list[tuple[int, float]]:
    best: dict[int, float] = {}
    for row in zip_longest(*rows):
        for place, score in filter(None, row):
            best[place] = max(score, best.get(place, score))
    return list(best.items())[:k]


SCORES = st.integers(0, 6).map(float)


@given(st.lists(SCORES, max_size=60), st.integers(1, 12))
def test_best_places_are_those_of_a_sort(scores: list[float], k: int) -> None:
    expected = [place for place in sorted(range(len(scores)), key=lambda at: -scores[at]) if scores[place] > 0][:k]
    found = best_places(np.array(scores, dtype=np.float32), k)
    assert sorted(found.tolist()) == sorted(expected)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 15), SCORES), max_size=9, unique_by=lambda one: one[0]), min_size=1),
    st.integers(1, 20),
)
def test_rows_take_turns(rows: list[list[tuple[int, float]]], k: int) -> None:
    places, scores = (
        np.array([pair[at] for row in rows for pair in row], dtype=kind) for at, kind in ((0, np.int64), (1, float))
    )
    starts = np.cumsum([0, *map(len, rows)])
    merged, best = in_turn(places, scores, starts, 16, k)
    assert list(zip(merged.tolist(), best.tolist(), strict=True)) == plain_merge(rows, k)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4), st.integers(1, 60))
def test_candidates_of_diagnoses_by_arrays_are_those_of_loops(index: EmbeddedIndex, texts: list[str], k: int) -> None:
    assert index.categories is not None
    categories = categories_of([Entry(code, term) for code, term in zip(index.codes, index.terms, strict=True)])
    asked = [*texts, "、".join(texts)]
    fast, plain = (
        find(SenseIndex(CategoryIndex(one, index.categories)), asked, k, categories=categories)
        for one in (index, Plain(index))
    )
    assert [one.candidates for one in fast] == [one.candidates for one in plain]
    assert [(one.of_parts, one.queries) for one in fast] == [(one.of_parts, one.queries) for one in plain]


def test_placed_candidates_are_a_sequence_of_candidates(index: EmbeddedIndex) -> None:
    (placed,), (listed,) = index.placed([TEXTS[0]], 7), index.search([TEXTS[0]], 7)
    assert placed == listed == list(placed) and placed == tuple(listed) and placed != listed[:-1]
    assert (placed[0], placed[-1], placed[1:3], len(placed)) == (listed[0], listed[-1], listed[1:3], 7)
    assert pickle.loads(pickle.dumps(placed)) == tuple(listed) and repr(placed) == repr(tuple(listed))
    assert hash(placed) == hash(tuple(listed))


def test_repeated_texts_are_answered_alike_and_by_the_threshold_of_the_day(index: EmbeddedIndex) -> None:
    normaliser, other = Normaliser(index.folder), Normaliser(index.folder)
    texts = TEXTS[:20] * 2
    first = normaliser.normalise(texts)
    assert first[:20] == first[20:] == other.normalise(TEXTS[:20]) == normaliser.normalise(TEXTS[:20])
    normaliser.threshold = 1.1
    assert not any(one.answers for one in normaliser.normalise(texts))


def test_memory_of_texts_is_bounded(index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.normalise.normaliser.REMEMBERED", 5)
    normaliser = Normaliser(index.folder)
    assert normaliser.normalise(TEXTS[:30]) == Normaliser(index.folder).normalise(TEXTS[:30])
    assert len(normaliser._answered_before) == 5


@given(
    st.lists(st.text("癌肺ab1 ", min_size=1, max_size=3).filter(str.strip), min_size=1, max_size=6),
    st.text("癌肺ab1 炎", max_size=12),
)
def test_words_are_found_as_one_pattern_finds_them(words: list[str], text: str) -> None:
    longest = sorted(set(words), key=lambda word: (-len(word), word))
    pattern = "|".join(
        rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])" if word.isascii() else re.escape(word) for word in longest
    )
    assert [match.span() for match in Words(words).found(text)] == [
        match.span() for match in re.finditer(pattern, text)
    ]
