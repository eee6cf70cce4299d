"""Stage `segment`: documents cut at sentence ends into segments of 32 to 512 tokens, with their words.

eHealth, section 4.1: "Sequences longer than 512 tokens are segmented into shorter chunks according to sentence
boundaries, and those shorter than 32 tokens are discarded." Lengths are counted with the vocabulary if the stage is
given one, and estimated otherwise.

The turns of a dialogue are kept whole where they fit. Words are those of tasks/segment/words.py; terms of a user
dictionary are kept whole.

The lengths of documents and segments are counted at the same time, for the page about the corpus.

Time grows with the characters, memory with one part. Segments of documents that an earlier artifact contains are reused
(tasks/segment/earlier.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from infra import schemas
from infra.arrays.batching import batches_of
from infra.builds import PartWriter
from infra.disk.packed import unpadded
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.tokenizer.corpus import CorpusTokenizer, corpus_tokenizer
from tasks.documents import source_called
from tasks.segment.earlier import EarlierSegments, Work, work_on
from tasks.segment.lengths import length_counts, measured
from tasks.segment.sentences import Cost, CountedCost, Span, cut
from tasks.segment.units import UnitCosts, count_units
from tasks.segment.words import Engine, read_terms, segment_words, word_lengths

__all__ = ["segment", "segment_words", "split_document"]

MAX_WORD_LENGTH = 2**16 - 1
"""Longest word that the column words can store; a longer run of letters counts as several words."""


def split_document(text: str, max_tokens: int, min_tokens: int, count: Callable[[str], int] = count_units) -> list[str]:
    """Return segments of at least `min_tokens` and at most `max_tokens`, cut at sentence ends.

    A sentence that is too long is cut at commas, then between words. Numbers with their units and the text in brackets
    are kept whole where they fit. Pieces that remain shorter than `min_tokens` are left out.

    Raises:
        ValueError: max_tokens is less than 1 or than min_tokens.
    """
    pieces = cut_document(text, max_tokens, count, min_tokens)
    return [segment for segment, tokens in pieces if tokens >= min_tokens]


def cut_document(
    text: str, max_tokens: int, count: Callable[[str], int] = count_units, min_tokens: int = 0
) -> list[tuple[str, int]]:
    """Return all pieces of a document with their lengths in tokens, also those shorter than `min_tokens`.

    With the white space around them they join to the text. A piece that would be too short takes text from a
    neighbour if both can be long enough.

    Raises:
        ValueError: max_tokens is less than 1 or than min_tokens.
    """
    return _cut(text, CountedCost(text, count), max_tokens, min_tokens)


def _cut(text: str, cost: Cost, max_tokens: int, min_tokens: int, keep_lines: bool = False) -> list[tuple[str, int]]:
    if max_tokens < 1 or max_tokens < min_tokens:
        raise ValueError(f"max_tokens={max_tokens} must be at least 1 and at least min_tokens={min_tokens}")
    pieces = [_taken(text, span) for span in cut(text, cost, max_tokens, min_tokens, keep_lines)]
    return [(piece, tokens) for piece, tokens in pieces if piece]


def _taken(text: str, span: Span) -> tuple[str, int]:
    return text[span.start : span.end].strip(), span.tokens


class SegmentParams(StageParams):
    """Lengths of segments, without [CLS] and [SEP], and the engine that finds their words."""

    max_tokens: int = Field(default=510, ge=1)
    """Most tokens of a segment: 510 leave room for [CLS] and [SEP] in 512 positions."""
    min_tokens: int = Field(default=32, ge=1)
    """Fewest tokens of a segment; what is shorter is rejected."""
    engine: Engine = Field(default="lattice", description="engine that finds words; all give the same")
    hmm: bool = Field(default=False, description="guess unknown words with jieba's hidden Markov model")
    turn_sources: tuple[str, ...] = Field(
        default=("dialogue",), description="sources whose lines are turns, which are kept whole where they fit"
    )

    @field_validator("turn_sources")
    @classmethod
    def _called(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(source_called, sources))

    @model_validator(mode="after")
    def _lengths_fit(self) -> SegmentParams:
        if self.max_tokens < self.min_tokens:
            raise ValueError(f"max_tokens ({self.max_tokens}) is less than min_tokens ({self.min_tokens})")
        return self


@stage(name="segment", version=8, params=SegmentParams, tables=("segments", "lengths", "rejects"), heavy=True)
def segment(inputs: Mapping[str, Any], params: SegmentParams, out: Output) -> None:
    """Cut `inputs["documents"]`.

    Tokens are counted with the tokeniser of `inputs["vocabulary"]` if it is given. The terms of `inputs["dictionary"]`,
    raw text files with one term per line, are kept whole.

    Raises:
        UserError: no document is long enough, or the dictionary is not UTF-8.
    """
    documents, vocabulary = inputs["documents"], inputs.get("vocabulary")
    tokenizer = vocabulary.read_file("tokenizer.json").decode() if vocabulary is not None else None
    terms = "\n".join(read_terms(inputs["dictionary"])) if "dictionary" in inputs else ""
    work = work_on(documents.parts("documents"), out.earlier(inputs, but={"documents"}))
    out.map(segment_part, work, params, tokenizer, terms)
    if documents.rows("documents") and not out.rows("segments"):
        raise UserError(
            f"Empty corpus: none of {documents.rows('documents'):,} documents has as many tokens as segment.min_tokens="
            f"{params.min_tokens}. Give longer texts or lower segment.min_tokens."
        )


def segment_part(part: PartWriter, work: Work, params: SegmentParams, tokenizer_json: str | None, terms: str) -> None:
    """Cut one part.

    Args:
        part: where segments, lengths and rejects are written.
        work: the documents.
        params: parameters of the stage.
        tokenizer_json: content of a `tokenizer.json`, or None to estimate lengths.
        terms: terms of a user dictionary, one per line.
    """
    tokenizer = corpus_tokenizer(tokenizer_json) if tokenizer_json is not None else None
    earlier = EarlierSegments(work.earlier)
    table = work.documents.read(columns=["doc_id", "source", "text"]).combine_chunks()
    places = earlier.find(table["doc_id"])
    first = 0
    cut: list[pa.Table] = []
    for texts in batches_of(table["text"].to_pylist()):
        batch, known = table.slice(first, len(texts)), places[first : first + len(texts)]
        first += len(texts)
        # Cut the new documents, and put the earlier segments of the others between theirs, in the documents' order.
        new = np.flatnonzero(known < 0)
        made, owners = _segments_of(part, batch.take(pa.array(new)), [texts[i] for i in new], params, tokenizer, terms)
        if len(new) < len(texts):
            rows, counts = earlier.of(known[known >= 0])
            owners = np.concatenate([np.repeat(np.flatnonzero(known >= 0), counts), new[owners]])
            made = pa.concat_tables([rows, made]).take(pa.array(np.argsort(owners, kind="stable")))
        made = unpadded(made)
        part.count("documents_in", len(texts))
        part.count("tokens", pc.sum(made["tokens"]).as_py() or 0)
        part.write("segments", made)
        cut.append(measured(made, "tokens"))
    part.write("lengths", length_counts("documents", [measured(table)]))
    part.write("lengths", length_counts("segments", cut))


def _segments_of(
    part: PartWriter,
    batch: pa.Table,
    texts: list[str],
    params: SegmentParams,
    tokenizer: CorpusTokenizer | None,
    terms: str,
) -> tuple[pa.Table, np.ndarray]:
    """Return the segments of some documents, and the index of each one's document: int64 (S,), ascending."""
    found = _cut_texts(part, batch, texts, params, tokenizer)
    owners = batch.select(["doc_id", "source"]).take(pa.array(found.owners, pa.int64()))
    numbers = pa.array(map(str, found.positions), pa.string())
    columns = {
        "segment_id": pc.binary_join_element_wise(owners["doc_id"], numbers, "-"),
        "doc_id": owners["doc_id"],
        "source": owners["source"],
        "position": pa.array(found.positions, pa.int32()),
        "text": pa.array(found.texts, pa.string()),
        "words": _words(found.texts, params, terms),
        "tokens": pa.array(found.tokens, pa.int32()),
    }
    return schemas.conform(pa.table(columns), "segments"), np.array(found.owners, dtype=np.int64)


@dataclass
class _Found:
    """Segments of some documents, column by column."""

    owners: list[int] = field(default_factory=list)
    """Index of each segment's document."""
    positions: list[int] = field(default_factory=list)
    """Number of each segment in its document, counted from 0."""
    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def _cut_texts(
    part: PartWriter, batch: pa.Table, texts: list[str], params: SegmentParams, tokenizer: CorpusTokenizer | None
) -> _Found:
    """Return the pieces of some documents that are long enough, and reject the others."""
    sources = batch["source"].to_pylist()
    costs = UnitCosts(texts) if tokenizer is None else _TokenCosts(texts, tokenizer)
    found = _Found()
    for owner, (text, total) in enumerate(zip(texts, costs.totals.tolist(), strict=True)):
        position = 0
        for piece, tokens in _pieces(text, total, sources[owner], partial(costs.of, owner), params):
            if tokens >= params.min_tokens:
                found.owners.append(owner)
                found.positions.append(position)
                found.texts.append(piece)
                found.tokens.append(tokens)
                position += 1
                continue
            part.reject(
                doc_id=batch["doc_id"][owner].as_py(),
                source=sources[owner],
                reason="short_segment",
                detail=f"the segment has {tokens} tokens, fewer than segment.min_tokens={params.min_tokens}",
                text=piece,
            )
    return found


def _pieces(
    text: str, total: int, source: str, cost: Callable[[], Cost], params: SegmentParams
) -> list[tuple[str, int]]:
    """Return the pieces of a text of `total` tokens; most texts have only one."""
    if total > params.max_tokens:
        keep_lines = source in params.turn_sources
        return _cut(text, cost(), params.max_tokens, params.min_tokens, keep_lines)
    whole = text.strip()
    return [(whole, total)] if whole else []


class _TokenCosts:
    """Numbers of tokens of many texts and their pieces; see `tasks.segment.units.UnitCosts`."""

    def __init__(self, texts: Sequence[str], tokenizer: CorpusTokenizer) -> None:
        self._texts, self._encoded = texts, tokenizer.encode(texts)
        self.totals: np.ndarray = np.diff(self._encoded.borders)

    def of(self, number: int) -> Cost:
        first, end = self._encoded.borders[number : number + 2]
        # A piece has the tokens that begin in it: sums of the tokens that begin before each character.
        begins = np.bincount(self._encoded.starts[first:end] + 1, minlength=len(self._texts[number]) + 1)
        return _TokenCost(np.cumsum(begins))


class _TokenCost:
    """Numbers of tokens of the pieces of one text."""

    def __init__(self, before: np.ndarray) -> None:
        self._before = before

    def __call__(self, start: int, end: int) -> int:
        return int(self._before[end] - self._before[start])

    def up_to(self, places: np.ndarray) -> list[int]:
        sums: list[int] = self._before[places].tolist()
        return sums


def _words(texts: Sequence[str], params: SegmentParams, terms: str) -> pa.ListArray:
    """Return the lengths of each text's words."""
    lengths, borders = word_lengths(texts, params.engine, params.hmm, terms)
    if lengths.max(initial=0) > MAX_WORD_LENGTH:
        # Cut each long word into full pieces and a rest: 70,000 becomes 65,535 and 4,465.
        pieces = -(-lengths // MAX_WORD_LENGTH)
        borders = np.concatenate([[0], np.cumsum(pieces)])[borders]
        last = np.cumsum(pieces) - 1
        rests = lengths - (pieces - 1) * MAX_WORD_LENGTH
        lengths = np.full(int(pieces.sum()), MAX_WORD_LENGTH)
        lengths[last] = rests
    values = pa.array(lengths.astype(np.uint16))
    return pa.ListArray.from_arrays(pa.array(borders, pa.int32()), values, type=schemas.SEGMENTS.field("words").type)
