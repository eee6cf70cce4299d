"""Stages `embedding_counts`, `embedding_words`, `word_sequences`: the words that get vectors, and text as their rows.

A word is one of the segmented words of a segment, or each of its characters. White space is no word. Words that are
rarer than `min_count` are left out of the sequences, as word2vec and GloVe's programs do: their neighbours become
neighbours of each other.

Time grows with the characters; memory with one part. `embedding_words` is one process, which holds the distinct words
of the corpus, some 175 bytes each: 45 million in 8 GB.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage

AT_ONCE = 20_000
"""Rows that are read or written together."""

T = TypeVar("T")


class EmbeddingCountsParams(StageParams):
    """Settings of which words get a vector."""

    level: Literal["word", "character"] = Field(
        default="word", description="word: the segmented words of the text; character: each character but white space."
    )


class EmbeddingWordsParams(StageParams):
    """Criterion for words that get vectors."""

    min_count: int = Field(default=5, ge=1, description="Occurrences in the corpus below which a word gets no vector.")


@stage(name="embedding_counts", version=1, params=EmbeddingCountsParams, tables=("embedding_counts",), heavy=True)
def embedding_counts(inputs: Mapping[str, Artifact], params: EmbeddingCountsParams, out: Output) -> None:
    """Count the words of each part of `inputs["segments"]`."""
    out.map(count_part, inputs["segments"].parts("segments"), params)


def count_part(writer: PartWriter, part: Part, params: EmbeddingCountsParams) -> None:
    """Write the words of one part with their occurrences, in sorted order."""
    counts: Counter[str] = Counter()
    for words in _texts_as_words(part, params.level):
        counts.update(words)
    ordered = sorted(counts)
    for some in _batches(ordered):
        writer.write("embedding_counts", [{"word": word, "count": counts[word]} for word in some])


@stage(name="embedding_words", version=1, params=EmbeddingWordsParams, tables=("embedding_words",), heavy=True)
def embedding_words(inputs: Mapping[str, Artifact], params: EmbeddingWordsParams, out: Output) -> None:
    """Merge `inputs["counts"]` and keep the words that are frequent enough, the most frequent first, ties by spelling.

    Raises:
        UserError: the corpus has no word, or none is frequent enough.
    """
    counts: Counter[str] = Counter()
    for part in inputs["counts"].parts("embedding_counts"):
        table = part.read()
        for word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
            counts[word] += count
    kept = sorted((-count, word) for word, count in counts.items() if count >= params.min_count)
    if not counts:
        raise UserError("The corpus has no words: there is nothing to embed. Give text with the parameter corpus.")
    if not kept:
        word, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        raise UserError(
            f"No word occurs {params.min_count:,} times in the corpus; the most frequent, {word!r}, occurs {count:,} "
            "times. Give more text or lower embedding_words.min_count."
        )
    out.count("words_in_text", sum(counts.values()))
    out.count("distinct_words", len(counts))
    with out.part() as writer:
        for some in _batches(kept):
            writer.write("embedding_words", [{"word": word, "frequency": -count} for count, word in some])


@stage(name="word_sequences", version=1, params=EmbeddingCountsParams, tables=("word_sequences",), heavy=True)
def word_sequences(inputs: Mapping[str, Artifact], params: EmbeddingCountsParams, out: Output) -> None:
    """Write `inputs["segments"]` as rows of `inputs["words"]`, one sequence per segment.

    Raises:
        UserError: no segment has two words with vectors, so that there is no context to learn from.
    """
    out.map(sequence_part, inputs["segments"].parts("segments"), inputs["words"], params)
    if not out.counters()["sequences_of_two"]:
        raise UserError(
            "No segment has two words that are frequent enough, so no word has a context. Give longer text or lower "
            "embedding_words.min_count."
        )


def sequence_part(writer: PartWriter, part: Part, words: Artifact, params: EmbeddingCountsParams) -> None:
    """Write one part of segments as sequences, in its order; words without a vector are left out."""
    rows = {word: row for row, word in enumerate(words.to_table("embedding_words")["word"].to_pylist())}
    writer.write("word_sequences", schemas.WORD_SEQUENCES.empty_table())
    for texts in _batches(_texts_as_words(part, params.level)):
        found = [[rows[word] for word in text if word in rows] for text in texts]
        lengths = np.fromiter(map(len, found), dtype=np.int32, count=len(found))
        flat = np.fromiter(itertools.chain.from_iterable(found), dtype=np.uint32, count=int(lengths.sum()))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        kind = schemas.WORD_SEQUENCES.field("rows").type
        writer.write(
            "word_sequences", pa.table({"rows": pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), type=kind)})
        )
        writer.count("words", int(lengths.sum()))
        writer.count("words_without_vector", sum(map(len, texts)) - int(lengths.sum()))
        writer.count("sequences_of_two", int((lengths > 1).sum()))


def _texts_as_words(part: Part, level: str) -> Iterator[list[str]]:
    """Yield the words or characters of each segment of a part."""
    table = part.read(columns=["text", "words"])
    for some in table.to_batches(AT_ONCE):
        texts = some["text"].to_pylist()
        if level == "character":
            for text in texts:
                yield list("".join(text.split()))
            continue
        for text, lengths in zip(texts, some["words"].to_pylist(), strict=True):
            ends = list(itertools.accumulate(lengths))
            # Joined and split again: white space is no word, and `维生素 C`, if it were one, would be two.
            yield " ".join([text[end - length : end] for end, length in zip(ends, lengths, strict=True)]).split()


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of up to `AT_ONCE`."""
    rest = iter(items)
    while some := list(itertools.islice(rest, AT_ONCE)):
        yield some
