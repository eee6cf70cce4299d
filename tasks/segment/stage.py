"""Stage `segment`: documents become segments of 32 to 512 tokens, cut at the ends of sentences, with their words.

eHealth, section 4.1: "Sequences longer than 512 tokens are segmented into shorter chunks according to sentence
boundaries, and those shorter than 32 tokens are discarded." Lengths are counted with the vocabulary where the
stage is given one, and estimated where not.

In a dialogue whole turns stay together where they fit. Words are those of tasks/segment/words.py; terms of a user
dictionary stay whole.

The lengths of documents and segments are counted on the way, for the page about the corpus.

Time grows with the characters, memory with one part. Of documents that an earlier artifact has cut alike the segments
are taken from there (tasks/segment/earlier.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from infra import schemas
from infra.arrays.batching import batches_of
from infra.builds import PartWriter
from infra.errors import UserError
from infra.packed import unpadded
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
    return _cut(text, CountedCost(text, count), max_tokens, min_tokens)


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
    engine: Engine = Field(default="lattice", description="what cuts words; all cut alike")
    hmm: bool = Field(default=False, description="guess unknown words by jieba's hidden Markov model")
    turn_sources: tuple[str, ...] = Field(
        default=("dialogue",), description="sources whose lines are turns, which stay whole where they fit"
    )

    @field_validator("turn_sources")
    @classmethod
    def _called(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(source_called, sources))

    @model_validator(mode="after")
    def _lengths_fit(self) -> SegmentParams:
        if self.max_tokens < self.min_tokens:
            raise ValueError(f"max_tokens ({self.max_tokens}) is under min_tokens ({self.min_tokens})")
        return self


@stage(name="segment", version=8, params=SegmentParams, tables=("segments", "lengths", "rejects"))
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
    work = work_on(documents.parts("documents"), out.earlier(inputs, but={"documents"}))
    out.map(segment_part, work, params, tokenizer, terms)
    if documents.rows("documents") and not out.rows("segments"):
        raise UserError(
            f"Empty corpus: none of {documents.rows('documents'):,} documents has segment.min_tokens="
            f"{params.min_tokens} tokens. Give longer texts or lower segment.min_tokens."
        )


def segment_part(part: PartWriter, work: Work, params: SegmentParams, tokenizer_json: str | None, terms: str) -> None:
    """Cut one part; `tokenizer_json` is the content of a `tokenizer.json`, or None to estimate lengths."""
    tokenizer = corpus_tokenizer(tokenizer_json) if tokenizer_json is not None else None
    earlier = EarlierSegments(work.earlier)
    table = work.documents.read(columns=["doc_id", "source", "text"]).combine_chunks()
    places = earlier.find(table["doc_id"])
    first = 0
    cut: list[pa.Table] = []
    for texts in batches_of(table["text"].to_pylist()):
        batch, known = table.slice(first, len(texts)), places[first : first + len(texts)]
        first += len(texts)
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
    """The segments of some documents, and of which document each is: int64 (S,), ascending."""
    sources = batch["source"].to_pylist()
    owners: list[int] = []
    positions: list[int] = []
    segments: list[str] = []
    lengths: list[int] = []
    costs = UnitCosts(texts) if tokenizer is None else _TokenCosts(texts, tokenizer)
    for owner, (text, total) in enumerate(zip(texts, costs.totals.tolist(), strict=True)):
        position = 0
        for piece, tokens in _pieces(text, total, sources[owner], partial(costs.of, owner), params):
            if tokens >= params.min_tokens:
                owners.append(owner)
                positions.append(position)
                segments.append(piece)
                lengths.append(tokens)
                position += 1
                continue
            part.reject(
                doc_id=batch["doc_id"][owner].as_py(),
                source=sources[owner],
                reason="short_segment",
                detail=f"{tokens} tokens, at least {params.min_tokens} are asked for",
                text=piece,
            )
    of_owners = batch.select(["doc_id", "source"]).take(pa.array(owners, pa.int64()))
    columns = {
        "segment_id": pc.binary_join_element_wise(of_owners["doc_id"], pa.array(map(str, positions), pa.string()), "-"),
        "doc_id": of_owners["doc_id"],
        "source": of_owners["source"],
        "position": pa.array(positions, pa.int32()),
        "text": pa.array(segments, pa.string()),
        "words": _words(segments, params, terms),
        "tokens": pa.array(lengths, pa.int32()),
    }
    return schemas.conform(pa.table(columns), "segments"), np.array(owners, dtype=np.int64)


def _pieces(
    text: str, total: int, source: str, cost: Callable[[], Cost], params: SegmentParams
) -> list[tuple[str, int]]:
    """The pieces of a text of `total` tokens; most texts are one."""
    if total > params.max_tokens:
        keep_lines = source in params.turn_sources
        return _cut(text, cost(), params.max_tokens, params.min_tokens, keep_lines)
    whole = text.strip()
    return [(whole, total)] if whole else []


class _TokenCosts:
    """Tokens of many texts, and of their pieces; see `tasks.segment.units.UnitCosts`."""

    def __init__(self, texts: Sequence[str], tokenizer: CorpusTokenizer) -> None:
        self._texts, self._encoded = texts, tokenizer.encode(texts)
        self.totals: np.ndarray = np.diff(self._encoded.borders)

    def of(self, number: int) -> Cost:
        first, end = self._encoded.borders[number : number + 2]
        begins = np.bincount(self._encoded.starts[first:end] + 1, minlength=len(self._texts[number]) + 1)
        return _TokenCost(np.cumsum(begins))


class _TokenCost:
    """Tokens of the pieces of one text."""

    def __init__(self, before: np.ndarray) -> None:
        self._before = before

    def __call__(self, start: int, end: int) -> int:
        return int(self._before[end] - self._before[start])

    def up_to(self, places: np.ndarray) -> list[int]:
        sums: list[int] = self._before[places].tolist()
        return sums


def _words(texts: Sequence[str], params: SegmentParams, terms: str) -> pa.ListArray:
    """For each text the lengths of its words."""
    lengths, borders = word_lengths(texts, params.engine, params.hmm, terms)
    if lengths.max(initial=0) > MAX_WORD_LENGTH:
        pieces = -(-lengths // MAX_WORD_LENGTH)
        borders = np.concatenate([[0], np.cumsum(pieces)])[borders]
        last = np.cumsum(pieces) - 1
        rests = lengths - (pieces - 1) * MAX_WORD_LENGTH
        lengths = np.full(int(pieces.sum()), MAX_WORD_LENGTH)
        lengths[last] = rests
    values = pa.array(lengths.astype(np.uint16))
    return pa.ListArray.from_arrays(pa.array(borders, pa.int32()), values, type=schemas.SEGMENTS.field("words").type)
