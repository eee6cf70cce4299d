"""Words that get vectors: counted and laid out as plain Python does, and nothing to learn from is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tests.support.text.words import embedding_inputs

words = st.text("热痛ab。 \n\u3000", min_size=1, max_size=3)
parts = st.lists(st.lists(st.lists(words, min_size=1, max_size=6), max_size=4), min_size=1, max_size=3)


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


def sequences_of(found: dict[str, Artifact]) -> list[list[str]]:
    names = found["words"].to_table()["word"].to_pylist()
    return [[names[row] for row in rows] for rows in found["sequences"].to_table()["rows"].to_pylist()]


@pytest.mark.parametrize("level", ["word", "character"])
@settings(max_examples=12)
@given(parts=parts, min_count=st.integers(1, 3))
def test_sequences_are_the_frequent_words_of_each_text(
    tmp_path_factory: pytest.TempPathFactory, level: str, parts: list[list[list[str]]], min_count: int
) -> None:
    pieces = [
        [piece for word in text for piece in (word.split() if level == "word" else "".join(word.split()))]
        for part in parts
        for text in part
    ]
    counts = Counter(piece for text in pieces for piece in text)
    wanted = [[piece for piece in text if counts[piece] >= min_count] for text in pieces]
    store = ArtifactStore(tmp_path_factory.mktemp("store"))
    if not any(len(text) > 1 for text in wanted):
        with pytest.raises(UserError):
            embedding_inputs(store, *parts, level=level, min_count=min_count)
        return
    found = embedding_inputs(store, *parts, level=level, min_count=min_count)
    assert sequences_of(found) == wanted
    rows = found["words"].to_table().to_pylist()
    kept = sorted((piece for piece in counts if counts[piece] >= min_count), key=lambda each: (-counts[each], each))
    assert [(row["word"], row["frequency"]) for row in rows] == [(piece, counts[piece]) for piece in kept]


def test_words_do_not_depend_on_the_parts(store: ArtifactStore) -> None:
    texts = [["头痛", "，", "发热"], ["头痛", "3"], ["发热", "头痛", " "]]
    whole, cut = embedding_inputs(store, texts), embedding_inputs(store, texts[:1], texts[1:])
    assert whole["words"].to_table().equals(cut["words"].to_table())
    assert sequences_of(whole) == sequences_of(cut)


def test_an_empty_corpus_is_refused(store: ArtifactStore) -> None:
    for texts in ([], [[" ", "\n"]]):
        with pytest.raises(UserError, match=r"The corpus has no words.* Give text with the parameter corpus"):
            embedding_inputs(store, texts)


def test_a_min_count_above_all_counts_is_refused_with_the_highest(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match=r"No word occurs 9 times .* '痛', occurs 3 times.* embedding_words.min_count"):
        embedding_inputs(store, [["痛", "热"], ["痛", "痛"]], min_count=9)


def test_documents_of_one_word_are_refused_as_without_context(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match=r"No segment has two words that are frequent enough.*min_count"):
        embedding_inputs(store, [["头痛"], ["发热"], ["头痛", "罕见"], ["头痛"]], min_count=2)
