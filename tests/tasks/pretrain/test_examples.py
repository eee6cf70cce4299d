"""Examples have the right ids, their words begin where the segmenter says, and whole documents are held out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.tokenizer.corpus import CorpusTokenizer
from models.tokenizer.normal_form import normalise
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.pretrain.encode import EncodeParams, encode, word_begins
from tasks.segment.stage import SegmentParams, segment, segment_words
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary
from tests.support.text.stages import do
from tests.support.text.tables import documents_artifact

SENTENCES = [
    "患者主诉头痛3.5天，",
    "口服Aspirin 100mg每日1次。",
    "甲状腺TSHR阳性，ⅡA期。",
    "复查胸部CT未见异常！",
    "血压120/80 mmHg；",
]


def texts(count: int, seed: int = 0) -> list[str]:
    drawn = random.Random(seed)
    return [f"第{n}例。" + "".join(drawn.choices(SENTENCES, k=8)) for n in range(count)]


def prepared(store: ArtifactStore, *parts: list[str], max_tokens: int = 60) -> dict[str, Artifact]:
    documents = documents_artifact(store, *parts)
    # One vocabulary for all, so that tests may cut the same texts into other parts.
    counts = do(store, count_words, CountWordsParams(), documents=documents_artifact(store, texts(60)))
    built = do(store, vocabulary, VocabularyParams(size=300, min_frequency=2), words=counts)
    params = SegmentParams(max_tokens=max_tokens, min_tokens=5)
    return {"segments": do(store, segment, params, documents=documents, vocabulary=built), "vocabulary": built}


def rows_of(artifact: Artifact) -> list[dict[str, Any]]:
    return [row for table in ("examples", "held_out") for row in artifact.to_table(table).to_pylist()]


def test_ids_words_and_counters(store: ArtifactStore) -> None:
    inputs = prepared(store, [*texts(60), "罕见字龘靐，全部不认识的齉爩词语也要算作一个词。"])
    artifact = do(store, encode, EncodeParams(max_length=64), **inputs)
    tokens = inputs["vocabulary"].to_table()["token"].to_pylist()
    tokenizer = CorpusTokenizer(inputs["vocabulary"].read_file("tokenizer.json").decode())
    segments = {}
    for segmented in inputs["segments"].to_table().to_pylist():
        ids = [2, *tokenizer.encode([segmented["text"]]).ids.tolist(), 3]
        segments[segmented["doc_id"], *ids] = segmented
    rows = rows_of(artifact)
    assert len(rows) == inputs["segments"].rows("segments")
    unknown = 0
    for row in rows:
        segmented = segments[row["doc_id"], *row["input_ids"]]
        assert (row["source"], row["mentions"]) == (segmented["source"], [])
        ends = [*row["word_starts"][1:], len(row["input_ids"]) - 1]
        words = [
            "".join(tokens[i].removeprefix("##") for i in row["input_ids"][start:end])
            for start, end in zip(row["word_starts"], ends, strict=True)
        ]
        spoken = [normalise(word) for word in segment_words(segmented["text"]) if word.strip()]
        for word, tokens_of_word in zip(spoken, words, strict=True):
            assert word == tokens_of_word or "[UNK]" in tokens_of_word
        unknown += row["input_ids"].count(SPECIAL_TOKENS.index("[UNK]"))
    counters = artifact.manifest.counters
    assert counters["tokens"] == sum(len(row["input_ids"]) for row in rows)
    assert counters["words"] == sum(len(row["word_starts"]) for row in rows)
    assert counters["unknown_tokens"] == unknown > 0
    assert counters["examples"] == len(rows)
    assert "truncated_segments" not in counters


def test_truncation_is_counted(store: ArtifactStore) -> None:
    inputs = prepared(store, texts(30))
    artifact = do(store, encode, EncodeParams(max_length=20), **inputs)
    rows = rows_of(artifact)
    assert max(len(row["input_ids"]) for row in rows) == 20
    assert all(row["input_ids"][-1] == 3 and row["word_starts"][-1] < len(row["input_ids"]) - 1 for row in rows)
    lengths = inputs["segments"].to_table()["tokens"].to_pylist()
    assert artifact.manifest.counters["truncated_segments"] == sum(n > 18 for n in lengths)
    assert artifact.manifest.counters["truncated_tokens"] == sum(n - 18 for n in lengths if n > 18)


def test_documents_are_held_out_whole_and_by_their_share(store: ArtifactStore) -> None:
    inputs = prepared(store, texts(400), max_tokens=30)
    artifact = do(store, encode, EncodeParams(held_out_share=0.25), **inputs)
    kept = set(artifact.to_table("examples")["doc_id"].to_pylist())
    held_out = set(artifact.to_table("held_out")["doc_id"].to_pylist())
    assert not kept & held_out
    assert 60 < len(held_out) < 145
    other = do(store, encode, EncodeParams(held_out_share=0.25, seed=7), **inputs)
    assert set(other.to_table("held_out")["doc_id"].to_pylist()) != held_out


def test_parts_change_nothing(store: ArtifactStore) -> None:
    given = texts(50)
    whole = do(store, encode, EncodeParams(held_out_share=0.1), **prepared(store, given))
    parts = do(store, encode, EncodeParams(held_out_share=0.1), **prepared(store, given[:2], given[2:5], given[5:]))
    for table in ("examples", "held_out"):
        assert whole.to_table(table).equals(parts.to_table(table))
    assert whole.manifest.counters == parts.manifest.counters


def test_a_small_corpus_holds_out_a_document(store: ArtifactStore) -> None:
    inputs = prepared(store, texts(3))
    artifact = do(store, encode, EncodeParams(held_out_share=0.0001), **inputs)
    assert len(set(artifact.to_table("held_out")["doc_id"].to_pylist())) == 1
    assert len(set(artifact.to_table("examples")["doc_id"].to_pylist())) == 2


def test_one_document_cannot_be_trained_on_and_held_out(store: ArtifactStore) -> None:
    with pytest.raises(UserError, match="Empty corpus: no segment is left to train on"):
        do(store, encode, EncodeParams(), **prepared(store, texts(1)))


WORDS = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=20)
"""Length of each word, and whether it is blank."""


@settings(max_examples=200, deadline=None)
@given(WORDS, st.randoms(use_true_random=False))
def test_words_begin_at_their_first_token(words: list[tuple[int, bool]], drawn: random.Random) -> None:
    lengths = np.array([length for length, _ in words])
    firsts = np.cumsum(lengths) - lengths
    tokens, expected = [], []
    for (length, is_blank), first in zip(words, firsts, strict=True):
        if is_blank:
            continue
        expected.append(len(tokens) + 1)
        places = sorted(drawn.sample(range(length), drawn.randint(1, length)))
        tokens += [first + place for place in places for _ in range(drawn.randint(1, 2))]  # ⑩ is two tokens
    begins = word_begins(np.array(tokens, dtype=np.int64), lengths)
    assert (np.flatnonzero(begins) + 1).tolist() == expected


class NoParams(StageParams):
    """No parameters."""


@stage(name="segments", version=1, params=NoParams, tables=("segments",))
def damaged_segments(inputs: Mapping[str, Any], params: NoParams, out: Output) -> None:
    row = {"doc_id": "a", "source": "s", "text": "甲乙丙", "tokens": 3}
    with out.part() as part:
        words = [[1, 2], [2], [3]]
        part.write("segments", [{**row, "segment_id": f"a-{n}", "position": n, "words": words[n]} for n in range(3)])


def test_words_that_do_not_sum_to_their_text_are_rejected(store: ArtifactStore) -> None:
    inputs = prepared(store, texts(10))
    with pytest.raises(ValueError, match="do not sum to its length"):
        do(store, encode, EncodeParams(), **{**inputs, "segments": do(store, damaged_segments, NoParams())})
