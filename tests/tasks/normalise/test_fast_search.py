"""The fast search by arrays gives what plain search and reordering give, and one text at a time what many give."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalise.normaliser import Normaliser
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.categories import CategoryIndex
from tasks.retrieve.embedded import EmbeddedIndex

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
