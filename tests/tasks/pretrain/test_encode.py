"""Encoding: where words begin among tokens, which text is held out, and counts of what is cut off."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from models.tokenizer.wordpiece import build_tokenizer
from tasks.pretrain.encode import EncodeParams, encode, word_begins
from tasks.segment.stage import SegmentParams, segment, segment_words
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, build_vocabulary, count_words, vocabulary
from tests.support.text.synthetic_text import synthetic_documents
from tests.support.text.tables import documents_artifact

TEXTS = [document["text"] for document in synthetic_documents()]
TOKENIZER = build_tokenizer(build_vocabulary(TEXTS, 1000, 2))

marks = st.sampled_from("糖尿病患者MRIct3.5mg Ⅱ，。😀ß")


def plainly(offsets: list[tuple[int, int]], words: list[int]) -> list[int]:
    """The definition, one token after the other: the first token that begins inside each word."""
    begins = []
    bounds = [0, *accumulate(words)]
    for start, end in pairwise(bounds):
        inside = [i for i, (left, _) in enumerate(offsets[1:-1], 1) if start <= left < end]
        begins += inside[:1]
    return begins


@settings(max_examples=200, deadline=None)
@given(text=st.text(marks | st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_words_begin_where_the_definition_says(text: str) -> None:
    encoding = TOKENIZER.encode(text)
    words = [len(word) for word in segment_words(text)]
    begins = word_begins(np.array([start for start, _ in encoding.offsets[1:-1]], dtype=np.int64), np.array(words))
    assert (np.flatnonzero(begins) + 1).tolist() == plainly(encoding.offsets, words)


def inputs(store: ArtifactStore, parts: int) -> dict[str, Artifact]:
    documents = documents_artifact(store, *(TEXTS[i::parts] for i in range(parts)))
    words = run(count_words, store, CountWordsParams(), {"documents": documents}).artifact
    built = run(vocabulary, store, VocabularyParams(size=1000, min_frequency=2), {"words": words}).artifact
    cut = run(segment, store, SegmentParams(max_tokens=60, min_tokens=8), {"documents": documents}).artifact
    return {"segments": cut, "vocabulary": built}


def rows(artifact: Artifact, table: str) -> list[tuple[str, list[int], list[int]]]:
    return sorted((r["doc_id"], r["input_ids"], r["word_starts"]) for r in artifact.to_table(table).to_pylist())


def test_parts_change_neither_examples_nor_held_out_text(tmp_path: Path) -> None:
    params = EncodeParams(max_length=64, held_out_share=0.3)
    artifacts = []
    for parts in (1, 4):
        store = ArtifactStore(tmp_path / str(parts))
        artifacts.append(run(encode, store, params, inputs(store, parts)).artifact)
    for table in ("examples", "held_out"):
        assert rows(artifacts[0], table) == rows(artifacts[1], table)
        assert len(rows(artifacts[0], table)) > 10
    aside, kept = ({row[0] for row in rows(artifacts[0], table)} for table in ("held_out", "examples"))
    assert not aside & kept


def test_a_special_token_in_the_text_is_text(store: ArtifactStore) -> None:
    given_inputs = inputs(store, 1)
    marked = documents_artifact(store, [f"[MASK]{text}[SEP]" for text in TEXTS])
    cut = run(segment, store, SegmentParams(max_tokens=60, min_tokens=8), {"documents": marked}).artifact
    artifact = run(
        encode, store, EncodeParams(max_length=64, held_out_share=0.3), {**given_inputs, "segments": cut}
    ).artifact
    for row in artifact.to_table().to_pylist():
        assert not {0, 2, 3, 4} & set(row["input_ids"][1:-1])


def test_truncation_is_counted(store: ArtifactStore) -> None:
    given_inputs = inputs(store, 1)
    short = run(encode, store, EncodeParams(max_length=20, held_out_share=0.3), given_inputs).artifact
    whole = run(encode, store, EncodeParams(max_length=512, held_out_share=0.3), given_inputs).artifact
    assert "truncated_segments" not in whole.manifest.counters
    cut = short.manifest.counters
    assert cut["truncated_segments"] > 0
    assert cut["tokens"] + cut["truncated_tokens"] == whole.manifest.counters["tokens"]
    for row in short.to_table().to_pylist():
        assert len(row["input_ids"]) <= 20
        assert (row["input_ids"][0], row["input_ids"][-1]) == (2, 3)
        assert all(0 < start < len(row["input_ids"]) - 1 for start in row["word_starts"])


def test_the_shortest_example_has_one_token_of_text() -> None:
    assert EncodeParams(max_length=3).max_length == 3
    with pytest.raises(ValidationError, match="max_length"):
        EncodeParams(max_length=2)
