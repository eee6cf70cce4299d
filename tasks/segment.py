"""Stage `segment`: documents become segments of 32 to 512 tokens, cut at the ends of sentences, with their words.

eHealth, section 4.1: "Sequences longer than 512 tokens are segmented into shorter chunks according to sentence
boundaries, and those shorter than 32 tokens are discarded." Lengths are counted with the vocabulary where the
stage is given one, and estimated where not. Time grows with the characters, memory with one part.

Words: rjieba without jieba's hidden Markov model (the default) cuts exactly as jieba does, 18 times faster. With
the model ("jieba") unknown words such as names are guessed, and numbers like 3.5 are kept whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import regex
from pydantic import Field, model_validator
from tokenizers import Tokenizer

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from models.tokenizer import split_words

Count = Callable[[str], int]
"""Length of a text in tokens."""

SENTENCE = regex.compile(r"[^。！？!?；;\n]*[。！？!?；;\n]+[”’」』）)\]】]*|[^。！？!?；;\n]+")
"""A sentence with its end and the closing quotes and brackets behind it."""

CLAUSE = regex.compile(r"[^，,、：:]*[，,、：:]+|[^，,、：:]+")
WHOLE = regex.compile(r"[[\p{L}--\p{Han}]\p{N}.%‰℃°µμ/+\-±~～×^]+|\s+|.", regex.VERSION1 | regex.DOTALL)
"""What a cut never goes through: a number with its unit, a word, or a single character."""

OPENING, CLOSING = "（(【[「『《“", "）)】]」』》”"
MAX_BRACKET = 200
"""Characters after which an open bracket is taken for a slip and no longer keeps a sentence together."""

LETTERS_A_TOKEN = 4


def count_units(text: str) -> int:
    """Estimated length in tokens without a vocabulary: single characters count 1, a word a token every 4 letters."""
    return sum(1 if len(word) == 1 else -(-len(word) // LETTERS_A_TOKEN) for word in split_words(text))


def split_document(text: str, max_tokens: int, min_tokens: int, count: Count = count_units) -> list[str]:
    """Segments of at most `max_tokens` and at least `min_tokens`, cut at the ends of sentences.

    A sentence that is too long is cut at commas, then anywhere but inside a number, a unit or a word. The text
    between two brackets stays together where it fits.
    """
    return [segment for segment, tokens in cut_document(text, max_tokens, count, min_tokens) if tokens >= min_tokens]


def cut_document(text: str, max_tokens: int, count: Count, min_tokens: int = 0) -> list[tuple[str, int]]:
    """All segments of a document with their lengths, those that are too short included.

    They join to the text, but for white space at their ends. The last one takes sentences from the one before it
    where it would be too short alone and both can be long enough.

    Raises:
        ValueError: max_tokens is under 1, or under min_tokens.
    """
    if max_tokens < 1 or max_tokens < min_tokens:
        raise ValueError(f"max_tokens={max_tokens} must be at least 1 and at least min_tokens={min_tokens}")
    pieces = [(piece, count(piece)) for piece in _pieces(text, max_tokens, count)]
    groups = _pack(pieces, max_tokens)
    _balance_tail(groups, min_tokens)
    segments = ["".join(piece for piece, _ in group).strip() for group in groups]
    lengths = [sum(tokens for _, tokens in group) for group in groups]
    return [(segment, tokens) for segment, tokens in zip(segments, lengths, strict=True) if segment]


Group = list[tuple[str, int]]


def _pack(pieces: Sequence[tuple[str, int]], max_tokens: int) -> list[Group]:
    groups: list[Group] = []
    filled = 0
    for piece, tokens in pieces:
        if not groups or filled + tokens > max_tokens:
            groups.append([])
            filled = 0
        groups[-1].append((piece, tokens))
        filled += tokens
    return groups


def _balance_tail(groups: list[Group], min_tokens: int) -> None:
    """Move sentences from the last but one group to the last until that is long enough."""
    if len(groups) < 2:
        return
    before, tail = groups[-2], groups[-1]
    left, right = (sum(tokens for _, tokens in group) for group in (before, tail))
    while right < min_tokens and len(before) > 1 and left - before[-1][1] >= min_tokens:
        piece = before.pop()
        tail.insert(0, piece)
        left, right = left - piece[1], right + piece[1]


def _pieces(text: str, max_tokens: int, count: Count) -> Iterator[str]:
    """Sentences; clauses of those that are too long; runs of those clauses that still are."""
    for sentence in _sentences(text):
        if count(sentence) <= max_tokens:
            yield sentence
            continue
        for clause in CLAUSE.findall(sentence):
            if count(clause) <= max_tokens:
                yield clause
            else:
                yield from _cut_anywhere(clause, max_tokens, count)


def _sentences(text: str) -> Iterator[str]:
    """Sentences, those within one pair of brackets kept together."""
    held = ""
    for sentence in SENTENCE.findall(text):
        held += sentence
        open_brackets = sum(held.count(mark) for mark in OPENING) - sum(held.count(mark) for mark in CLOSING)
        if open_brackets <= 0 or held.endswith("\n") or len(held) > MAX_BRACKET:
            yield held
            held = ""
    if held:
        yield held


def _cut_anywhere(text: str, max_tokens: int, count: Count) -> Iterator[str]:
    held, filled = "", 0
    for unit in WHOLE.findall(text):
        for piece in [unit] if count(unit) <= max_tokens else list(unit):
            tokens = count(piece)
            if filled + tokens > max_tokens:
                yield held
                held, filled = "", 0
            held += piece
            filled += tokens
    if held:
        yield held


Engine = Literal["rjieba", "jieba"]


def segment_words(text: str, engine: Engine = "rjieba") -> list[str]:
    """The words of a text; they join to exactly the text."""
    return _cutter(engine)(text)


@functools.cache
def _cutter(engine: Engine) -> Callable[[str], list[str]]:
    if engine == "rjieba":
        import rjieba

        return lambda text: rjieba.cut(text, False)
    import jieba

    jieba.setLogLevel("WARNING")
    return jieba.lcut


class SegmentParams(StageParams):
    """Lengths without [CLS] and [SEP]."""

    max_tokens: int = Field(default=510, ge=1)
    min_tokens: int = Field(default=32, ge=1)
    words: Engine = Field(default="rjieba", description="rjieba: without, jieba: with the hidden Markov model")

    @model_validator(mode="after")
    def _lengths_fit(self) -> SegmentParams:
        if self.max_tokens < self.min_tokens:
            raise ValueError(f"max_tokens ({self.max_tokens}) is under min_tokens ({self.min_tokens})")
        return self


@stage(name="segment", version=1, params=SegmentParams, tables=("segments", "rejects"))
def segment(inputs: Mapping[str, Artifact], params: SegmentParams, out: Output) -> None:
    """Cut `inputs["documents"]`, counting with the tokeniser of `inputs["vocabulary"]` where it is given."""
    vocabulary = inputs.get("vocabulary")
    tokenizer = vocabulary.read_file("tokenizer.json").decode() if vocabulary is not None else None
    out.map(segment_part, inputs["documents"].parts("documents"), params, tokenizer)


def segment_part(part: PartWriter, documents: Part, params: SegmentParams, tokenizer: str | None) -> None:
    """Cut one part; `tokenizer` is the content of a `tokenizer.json`, or None."""
    count = _token_counter(tokenizer) if tokenizer else count_units
    rows = []
    for document in documents.read().to_pylist():
        part.count("documents_in")
        for position, (text, tokens) in enumerate(
            cut_document(document["text"], params.max_tokens, count, params.min_tokens)
        ):
            if tokens < params.min_tokens:
                part.reject(
                    doc_id=document["doc_id"],
                    source=document["source"],
                    reason="short_segment",
                    detail=f"{tokens} tokens, at least {params.min_tokens} are asked for",
                    text=text,
                )
            else:
                part.count("tokens", tokens)
                rows.append(_row(document, position, text, tokens, params.words))
    part.write("segments", rows)


def _token_counter(tokenizer: str) -> Count:
    """Exact lengths: a single character is one token, a run of letters what the tokeniser makes of it."""
    loaded = Tokenizer.from_str(tokenizer)

    @functools.lru_cache(maxsize=1 << 18)
    def pieces(word: str) -> int:
        return len(loaded.encode(word, add_special_tokens=False))

    return lambda text: sum(1 if len(word) == 1 else pieces(word) for word in split_words(text))


def _row(document: Mapping[str, Any], position: int, text: str, tokens: int, engine: Engine) -> dict[str, Any]:
    return {
        "segment_id": f"{document['doc_id']}-{position}",
        "doc_id": document["doc_id"],
        "source": document["source"],
        "position": position,
        "text": text,
        "words": [len(word) for word in segment_words(text, engine)],
        "tokens": tokens,
    }
