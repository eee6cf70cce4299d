"""BIOES tags of spans: Begin, Inside, Outside, End, Single (Ratinov and Roth, 2009).

Tag 0 is O; type k of a scheme has the tags 1 + 4k (B), 2 + 4k (I), 3 + 4k (E) and 4 + 4k (S): 5 classes for one type,
33 for eight, as eHealth's appendix E counts them.

Spans are (first, last, type number) in tokens, last inclusive. Time grows with tokens and spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

OUTSIDE = 0
BEGIN, INSIDE, END, SINGLE = range(4)
TAGS_OF_A_TYPE = 4


class Span(NamedTuple):
    """Tokens `first` to `last`, both inclusive."""

    first: int
    last: int
    type: int


def number_of_tags(types: int) -> int:
    """Return the number of classes of a tagger for `types` entity types."""
    return 1 + TAGS_OF_A_TYPE * types


def tag_names(types: Sequence[str]) -> list[str]:
    """Return the name of each tag: O, B-dis, I-dis, …"""
    return ["O", *(f"{letter}-{type_}" for type_ in types for letter in "BIES")]


def begin_inside_names(types: Sequence[str]) -> list[str]:
    """Return the name of each tag in the scheme that transformers' pipelines join entities by: O, B-dis, I-dis.

    They know no E and S: E-dis would be an entity of its own. So E is called I, and S is called B.
    """
    return ["O", *(f"{letter}-{type_}" for type_ in types for letter in "BIIB")]


def encode(spans: Iterable[Span], length: int) -> np.ndarray:
    """Return tags int64 (length,) of spans that do not overlap.

    Raises:
        ValueError: a span is outside the tokens, or two overlap.
    """
    tags = np.full(length, OUTSIDE, dtype=np.int64)
    for span in spans:
        if not 0 <= span.first <= span.last < length:
            raise ValueError(f"{span} is outside the {length} tokens")
        if tags[span.first : span.last + 1].any():
            raise ValueError(f"{span} overlaps with another span")
        base = 1 + TAGS_OF_A_TYPE * span.type
        tags[span.first : span.last + 1] = base + INSIDE
        tags[span.first], tags[span.last] = base + BEGIN, base + END
        if span.first == span.last:
            tags[span.first] = base + SINGLE
    return tags


def decode(tags: np.ndarray) -> list[Span]:
    """Return the spans that tags (L,) mark, in order; every sequence of tags is valid.

    Chunks are read as conlleval does: a span begins at B or S, and at I or E if no span of that type is open. It ends
    at E or S, and before the next beginning or O. `decode` restores exactly what `encode` was given.
    """
    tags = np.asarray(tags, dtype=np.int64)
    types, places = np.divmod(tags - 1, TAGS_OF_A_TYPE)
    inside = tags != OUTSIDE
    closes = inside & ((places == END) | (places == SINGLE))
    # A tag continues the one before it only if that one is open and has its type: in B-dis I-sym, I-sym begins a span.
    continues = np.zeros(len(tags), dtype=bool)
    continues[1:] = (
        inside[1:]
        & inside[:-1]
        & ~closes[:-1]
        & (types[1:] == types[:-1])
        & ((places[1:] == INSIDE) | (places[1:] == END))
    )
    firsts = np.flatnonzero(inside & ~continues)
    lasts = np.flatnonzero(inside & ~np.append(continues[1:], False))
    return [Span(int(first), int(last), int(types[first])) for first, last in zip(firsts, lasts, strict=True)]


def without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return the spans that one stream of tags can hold, in order.

    Of two that overlap the longer is kept; of two equally long ones, the first.
    """
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda span: (span.first - span.last, span)):
        if all(span.last < other.first or other.last < span.first for other in kept):
            kept.append(span)
    return sorted(kept)
