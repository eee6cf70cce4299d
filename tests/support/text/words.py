"""Segments whose words are given, for tests of what learns from words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.stage import Output, StageParams, run, stage
from tasks.embed.words import (
    EmbeddingCountsParams,
    EmbeddingWordsParams,
    embedding_counts,
    embedding_words,
    word_sequences,
)

Texts = Sequence[Sequence[str]]
"""The words of each text."""


class GivenWords(StageParams):
    parts: tuple[tuple[tuple[str, ...], ...], ...]


@stage(name="given_words", version=1, params=GivenWords, tables=("segments",))
def given_words(inputs: Mapping[str, Any], params: GivenWords, out: Output) -> None:
    out.map(write_words, params.parts)


def write_words(part: PartWriter, texts: Texts) -> None:
    rows = [
        {
            "segment_id": f"{part.index}-{number}",
            "doc_id": str(part.index),
            "source": "article",
            "position": number,
            "text": "".join(words),
            "words": [len(word) for word in words],
            "tokens": len(words),
        }
        for number, words in enumerate(texts)
    ]
    part.write("segments", rows)


def segments_of_words(store: ArtifactStore, *parts: Texts) -> Artifact:
    """Segments with these words, one argument per part."""
    given = GivenWords(parts=tuple(tuple(tuple(words) for words in part) for part in parts))
    return run(given_words, store, given, {}).artifact


def embedding_inputs(
    store: ArtifactStore, *parts: Texts, level: str = "word", min_count: int = 1
) -> dict[str, Artifact]:
    """The inputs `words` and `sequences` of the stages that learn vectors."""
    segments = segments_of_words(store, *parts)
    params = EmbeddingCountsParams.model_validate({"level": level})
    counts = run(embedding_counts, store, params, {"segments": segments}).artifact
    words = run(embedding_words, store, EmbeddingWordsParams(min_count=min_count), {"counts": counts}).artifact
    sequences = run(word_sequences, store, params, {"segments": segments, "words": words}).artifact
    return {"words": words, "sequences": sequences}


def topical_texts(
    seed: int, topics: int, words_per_topic: int, texts: int, length: int, noise: float = 0.0
) -> list[list[str]]:
    """Synthetic texts of one topic each: 0热3 is word 3 of topic 0. `noise`: share of words of any topic."""
    drawn = np.random.default_rng(seed)
    found = []
    for _ in range(texts):
        topic = int(drawn.integers(topics))
        # Squared: some words of a topic are frequent, others rare.
        places = (words_per_topic * drawn.random(length) ** 2).astype(int)
        own = np.where(drawn.random(length) < noise, drawn.integers(topics, size=length), topic)
        found.append([f"{each}热{place}" for each, place in zip(own.tolist(), places.tolist(), strict=True)])
    return found
