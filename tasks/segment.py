"""Stage `segment`: documents become segments of 32 to 512 tokens, cut at the ends of sentences, with their words.

eHealth, section 4.1: "Sequences longer than 512 tokens are segmented into shorter chunks according to sentence
boundaries, and those shorter than 32 tokens are discarded." Lengths are counted with the vocabulary where the
stage is given one, and estimated where not.

In a dialogue whole turns stay together where they fit. Words are those of tasks/words.py; terms of a user dictionary
stay whole.

Time grows with the characters, memory with one part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from infra.artifacts import Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.corpus_tokenizer import CorpusTokenizer, corpus_tokenizer
from tasks.batching import batches_of
from tasks.sentences import Cost, Span, cut
from tasks.units import count_units, unit_costs
from tasks.words import Engine, read_terms, segment_words

__all__ = ["segment", "segment_words", "split_document"]

MAX_WORD_LENGTH = 2**16 - 1
"""What a word's length has room for; a longer run of letters counts as several words."""


def split_document(text: str, max_tokens: int, min_tokens: int, count: Callable[[str], int] = count_units) -> list[str]:
    """Segments of at least `min_tokens` and at most `max_tokens`, cut at sentence ends.

    A sentence that is too long is cut at commas, then between words; numbers with their units and what stands
    in brackets stay whole where they fit. Pieces that stay under `min_tokens` are left out.

    Raises:
        ValueError: max_tokens is under 1 or under min_tokens.
    """
    pieces = cut_document(text, max_tokens, count, min_tokens)
    return [segment for segment, tokens in pieces if tokens >= min_tokens]


def cut_document(
    text: str, max_tokens: int, count: Callable[[str], int] = count_units, min_tokens: int = 0
) -> list[tuple[str, int]]:
    """All pieces of a document with their lengths in tokens, those under `min_tokens` included.

    With the white space around them they join to the text. A piece that would be too short takes from a
    neighbour what it lacks, where both can be long enough.

    Raises:
        ValueError: max_tokens is under 1 or under min_tokens.
    """
    return _cut(text, lambda start, end: count(text[start:end]), max_tokens, min_tokens)


def _cut(text: str, cost: Cost, max_tokens: int, min_tokens: int, keep_lines: bool = False) -> list[tuple[str, int]]:
    if max_tokens < 1 or max_tokens < min_tokens:
        raise ValueError(f"max_tokens={max_tokens} must be at least 1 and at least min_tokens={min_tokens}")
    pieces = [_taken(text, span) for span in cut(text, cost, max_tokens, min_tokens, keep_lines)]
    return [(piece, tokens) for piece, tokens in pieces if piece]


def _taken(text: str, span: Span) -> tuple[str, int]:
    return text[span.start : span.end].strip(), span.tokens


class SegmentParams(StageParams):
    """Lengths without [CLS] and [SEP]."""

    max_tokens: int = Field(default=510, ge=1)
    min_tokens: int = Field(default=32, ge=1)
    engine: Engine = Field(default="rjieba", description="what cuts words; both cut alike")
    hmm: bool = Field(default=False, description="guess unknown words by jieba's hidden Markov model")
    turn_sources: tuple[str, ...] = Field(
        default=("dialogue",), description="sources whose lines are turns, which stay whole where they fit"
    )

    @model_validator(mode="after")
    def _lengths_fit(self) -> SegmentParams:
        if self.max_tokens < self.min_tokens:
            raise ValueError(f"max_tokens ({self.max_tokens}) is under min_tokens ({self.min_tokens})")
        return self


@stage(name="segment", version=3, params=SegmentParams, tables=("segments", "rejects"))
def segment(inputs: Mapping[str, Any], params: SegmentParams, out: Output) -> None:
    """Cut `inputs["documents"]`.

    Tokens are counted with the tokeniser of `inputs["vocabulary"]` where it is given. `inputs["dictionary"]`, a raw
    text file with a term a line, keeps its terms whole.

    Raises:
        UserError: no document is long enough, or the dictionary is not UTF-8.
    """
    documents, vocabulary = inputs["documents"], inputs.get("vocabulary")
    tokenizer = vocabulary.read_file("tokenizer.json").decode() if vocabulary is not None else None
    terms = "\n".join(read_terms(inputs["dictionary"])) if "dictionary" in inputs else ""
    out.map(segment_part, documents.parts("documents"), params, tokenizer, terms)
    if documents.rows("documents") and not out.rows("segments"):
        raise UserError(
            f"Empty corpus: none of {documents.rows('documents'):,} documents has segment.min_tokens="
            f"{params.min_tokens} tokens. Give longer texts or lower segment.min_tokens."
        )


def segment_part(
    part: PartWriter, documents: Part, params: SegmentParams, tokenizer_json: str | None, terms: str
) -> None:
    """Cut one part; `tokenizer_json` is the content of a `tokenizer.json`, or None to estimate lengths."""
    tokenizer = corpus_tokenizer(tokenizer_json) if tokenizer_json is not None else None
    rows_read = documents.read(columns=["doc_id", "source", "text"]).to_pylist()
    for batch in batches_of(rows_read, length=lambda row: len(row["text"])):
        rows: list[dict[str, Any]] = []
        for document, cost in zip(batch, _costs([row["text"] for row in batch], tokenizer), strict=True):
            position = 0
            keep_lines = document["source"] in params.turn_sources
            for text, tokens in _cut(document["text"], cost, params.max_tokens, params.min_tokens, keep_lines):
                if tokens >= params.min_tokens:
                    rows.append(_row(document, position, text, tokens, params, terms))
                    position += 1
                    continue
                part.reject(
                    doc_id=document["doc_id"],
                    source=document["source"],
                    reason="short_segment",
                    detail=f"{tokens} tokens, at least {params.min_tokens} are asked for",
                    text=text,
                )
        part.count("documents_in", len(batch))
        part.count("tokens", sum(row["tokens"] for row in rows))
        part.write("segments", rows)


def _costs(texts: list[str], tokenizer: CorpusTokenizer | None) -> Iterator[Cost]:
    if tokenizer is None:
        yield from unit_costs(texts)
        return
    encoded = tokenizer.encode(texts)
    for text, first, end in zip(texts, encoded.borders, encoded.borders[1:], strict=False):
        begins = np.bincount(encoded.starts[first:end] + 1, minlength=len(text) + 1)
        yield functools.partial(_tokens_between, np.cumsum(begins).data)


def _tokens_between(before: Sequence[int], start: int, end: int) -> int:
    return before[end] - before[start]


def _row(
    document: Mapping[str, Any], position: int, text: str, tokens: int, params: SegmentParams, terms: str
) -> dict[str, Any]:
    return {
        "segment_id": f"{document['doc_id']}-{position}",
        "doc_id": document["doc_id"],
        "source": document["source"],
        "position": position,
        "text": text,
        "words": _lengths(segment_words(text, params.engine, params.hmm, terms), len(text)),
        "tokens": tokens,
    }


def _lengths(words: list[str], characters: int) -> list[int]:
    lengths = list(map(len, words))
    if characters > MAX_WORD_LENGTH and max(lengths) > MAX_WORD_LENGTH:
        cut_up = [[MAX_WORD_LENGTH] * (n // MAX_WORD_LENGTH) + [n % MAX_WORD_LENGTH] for n in lengths]
        return [length for group in cut_up for length in group if length]
    return lengths
