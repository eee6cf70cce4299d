"""Sentence pairs over flat arrays: which tokens make each pair, and its row [CLS] A [SEP] B [SEP].

The tokens of all segments are laid end to end without [CLS] and [SEP], so a document is one run of tokens and a side of
a pair is a range of it. Words and mentions of a side are those of its range, shifted.

Shape legend: T tokens of all segments, S segments, W words, N mentions, P pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra import schemas
from infra.arrays.ranges import ranges
from models.tokenizer.special_ids import CLS, SEP

Draw = Callable[[str, str], float]
"""Gives a number in [0, 1) for a purpose and a key, always the same one."""


@dataclass(frozen=True)
class Text:
    """Segments laid end to end, in the order of their documents."""

    tokens: np.ndarray
    """uint32 (T,)"""
    words: np.ndarray
    """int64 (W,) tokens at which words begin, increasing."""
    mentions: pa.StructArray
    """(N,) mentions in ascending order of their first tokens. Their places are those in the rows they come from."""
    starts: np.ndarray
    """int64 (N,) first token of each mention, ascending."""
    ends: np.ndarray
    """int64 (N,) token behind the last of each mention."""
    borders: np.ndarray
    """int64 (S + 1,) first token of each segment, and T."""
    documents: np.ndarray
    """int64 (S,) number of each segment's document; neighbours of one number are neighbours in the document."""
    names: Sequence[str]
    """The doc_id of each number."""
    rows: np.ndarray
    """int64 (S,) row of the table that each segment comes from."""

    @property
    def runs(self) -> np.ndarray:
        """First segment of each document, and S: int64."""
        changes = np.flatnonzero(np.diff(self.documents)) + 1
        return np.concatenate([np.zeros(min(1, len(self.documents)), np.int64), changes, [len(self.documents)]])

    def mentions_inside(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions that are whole inside ranges of tokens: numbers of ranges and of mentions, (M,) each."""
        first, behind = np.searchsorted(self.starts, begin), np.searchsorted(self.starts, end)
        mention, of_range = ranges(first, behind), np.repeat(np.arange(len(begin)), behind - first)
        whole = self.ends[mention] <= end[of_range]
        return of_range[whole], mention[whole]


@dataclass(frozen=True)
class Pairs:
    """Pairs of sides, each a range of a text's tokens."""

    sides: np.ndarray
    """int64 (P, 2, 2): A and B of each pair, with the first token of the side and the one behind its last."""
    is_random: np.ndarray
    """bool (P,) True if B comes from another document."""
    segments: np.ndarray
    """int64 (P,) first segment of each A."""
    without_partner: int = 0
    """Number of pairs that were to have a random B, but there is no other document."""

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of each side, int64 (P, 2)."""
        return self.sides[..., 1] - self.sides[..., 0]

    def __getitem__(self, some: slice) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.sides[some], self.is_random[some], self.segments[some])


def text_of(table: pa.Table) -> Text:
    """Return the segments of a table of examples; those without tokens are left out."""
    lengths = pc.list_value_length(table["input_ids"]).to_numpy().astype(np.int64)
    rows = np.flatnonzero(lengths > 2)
    table, lengths = table.take(pa.array(rows)), lengths[rows]
    ids, ends = pc.list_flatten(table["input_ids"]).to_numpy(), np.cumsum(lengths)
    ordinary = np.ones(len(ids), dtype=bool)
    ordinary[ends - lengths] = ordinary[ends - 1] = False  # [CLS] and [SEP]
    borders = np.concatenate([[0], np.cumsum(lengths - 2)])

    def flat(values: pa.ChunkedArray, column: str) -> np.ndarray:
        """Places in rows as places among all tokens: 1, behind [CLS], is the first of a segment."""
        shift = np.repeat(borders[:-1] - 1, pc.list_value_length(table[column]).to_numpy())
        return values.to_numpy().astype(np.int64) + shift

    mentions = pc.list_flatten(table["mentions"])
    starts, behind = (flat(pc.struct_field(mentions, name), "mentions") for name in ("start", "end"))
    order = np.argsort(starts, kind="stable")
    documents = pc.dictionary_encode(table["doc_id"].combine_chunks())
    return Text(
        tokens=ids[ordinary],
        words=flat(pc.list_flatten(table["word_starts"]), "word_starts"),
        mentions=mentions.combine_chunks().take(pa.array(order)),
        starts=starts[order],
        ends=behind[order],
        borders=borders,
        documents=documents.indices.to_numpy().astype(np.int64),
        names=documents.dictionary.to_pylist(),
        rows=rows,
    )


def split_single_segments(text: Text, sentence_ends: np.ndarray, min_words: int) -> tuple[Text, np.ndarray]:
    """Cut documents of one segment in two: behind the sentence that ends nearest the middle, else between two words.

    Args:
        sentence_ends: ids of the tokens that end a sentence.
        min_words: fewest words on each side.

    Returns:
        The text with these documents as two segments each, and int64 (K,) the segments that have too few words.
    """
    runs = text.runs
    places, short = [], []
    for segment in runs[:-1][np.diff(runs) == 1].tolist():
        begin, end = text.borders[segment], text.borders[segment + 1]
        words = text.words[slice(*np.searchsorted(text.words, [begin, end]))]
        between = words[min_words : len(words) - min_words + 1]
        if not len(between):
            short.append(segment)
            continue
        behind_sentences = between[np.isin(text.tokens[between - 1], sentence_ends)]
        candidates = behind_sentences if len(behind_sentences) else between
        places.append(candidates[np.argmin(np.abs(2 * candidates - begin - end))])
    borders = np.sort(np.concatenate([text.borders, np.array(places, dtype=np.int64)]))
    segment_of = np.searchsorted(text.borders, borders[:-1], side="right") - 1
    split = replace(text, borders=borders, documents=text.documents[segment_of], rows=text.rows[segment_of])
    return split, np.array(short, dtype=np.int64)


def choose_pairs(text: Text, room: int, random_share: float, draw: Draw) -> Pairs:
    """Choose the pairs of a text. A pair of one long segment and another may exceed the room.

    Neighbouring segments are taken together as long as they fit, at least two; a draw says with which of them B begins.
    A segment left alone at the end of its document is paired with the one before it once more. A random B has as many
    segments as the true one, as far as they fit. It begins with a segment that another precedes in its document, as
    every true B does: otherwise the openings of documents would give random pairs away.

    Args:
        room: tokens of both sides together.
        random_share: share of the pairs whose B comes from another document.
    """
    sizes, runs = np.diff(text.borders).tolist(), text.runs
    behind = np.repeat(runs[1:], np.diff(runs)).tolist()
    partners = _Partners.of(text)
    sides: list[tuple[int, int, int, int]] = []
    is_random: list[bool] = []
    without_partner = 0
    for first, end in pairwise(runs.tolist()):
        for number, (start, stop) in enumerate(_chunks(sizes, first, end, room)):
            document = int(text.documents[start])
            key = f"{text.names[document]}-{number}"
            middle = start + 1 + int(draw("split", key) * (stop - start - 1))
            sides.append((start, middle, middle, stop))
            is_random.append(False)
            if draw("random", key) >= random_share:
                continue
            other = partners.other_than(document, draw("partner", key))
            if other is None:
                without_partner += 1
                continue
            last = min(other + stop - middle, behind[other])
            sides[-1] = (start, middle, other, _filled(sizes, other, other + 1, last, room - sum(sizes[start:middle])))
            is_random[-1] = True
    segments = np.array(sides, dtype=np.int64).reshape(-1, 2, 2)
    return Pairs(text.borders[segments], np.array(is_random, dtype=bool), segments[:, 0, 0], without_partner)


def cut(text: Text, pairs: Pairs, room: int) -> tuple[Pairs, int]:
    """Cut pairs that exceed the room, and return the number of mentions that this loses.

    A loses words at its beginning and B at its end, so that the sides stay neighbours. The longer side is cut first:
    each has half of the room, and what the other leaves of its half. A word that is longer than that is cut inside.
    """
    (begin, middle), (other, end) = pairs.sides[:, 0].T, pairs.sides[:, 1].T
    rooms = np.maximum(room // 2, room - pairs.sizes[:, ::-1])
    word_borders = np.concatenate([[0], text.words, [len(text.tokens)]])
    first = middle - rooms[:, 0]
    word = word_borders[np.searchsorted(word_borders, np.maximum(first, 0))]
    begin = np.where(first <= begin, begin, np.where(word < middle, word, first))
    last = other + rooms[:, 1]
    word = word_borders[np.searchsorted(word_borders, last, side="right") - 1]
    end = np.where(last >= end, end, np.where(word > other, word, last))
    remaining = replace(pairs, sides=np.stack([np.stack([begin, middle], 1), np.stack([other, end], 1)], 1))
    shorter = (remaining.sizes != pairs.sizes).any(axis=1)
    lost = _mentions_of(text, pairs.sides[shorter]) - _mentions_of(text, remaining.sides[shorter])
    return remaining, lost


def rows_of(text: Text, pairs: Pairs, labels: pa.Table) -> pa.Table:
    """Return the rows of the table `pairs`.

    Args:
        labels: doc_id and source of all rows of the table that the text comes from.
    """
    begin, end = pairs.sides.reshape(-1, 2).T
    sizes = pairs.sizes
    lengths = sizes.sum(axis=1) + 3
    borders = np.concatenate([[0], np.cumsum(lengths)])
    second = sizes[:, 0] + 2  # behind [CLS] A [SEP]
    places = np.stack([np.ones_like(second), second], axis=1).reshape(-1)  # of each side's first token in its row
    ids = np.full(borders[-1], SEP, dtype=np.uint32)
    ids[borders[:-1]] = CLS
    to = np.repeat(borders[:-1], 2) + places
    ids[ranges(to, to + end - begin)] = text.tokens[ranges(begin, end)]
    first, behind = np.searchsorted(text.words, begin), np.searchsorted(text.words, end)
    words = text.words[ranges(first, behind)] + np.repeat(places - begin, behind - first)
    of_pair = labels.take(pa.array(text.rows[pairs.segments]))
    schema = schemas.TABLES["pairs"]
    columns = {
        "input_ids": _lists(pa.array(ids), borders, schema.field("input_ids").type),
        "word_starts": _lists(
            pa.array(words.astype(np.uint16)),
            _borders((behind - first).reshape(-1, 2).sum(axis=1)),
            schema.field("word_starts").type,
        ),
        "mentions": _mentions(text, begin, end, places, schema.field("mentions").type),
        "second": second.astype(np.uint16),
        "is_random": pairs.is_random,
        "doc_id": of_pair["doc_id"],
        "source": of_pair["source"],
    }
    return pa.Table.from_pydict(columns, schema=schema)


@dataclass(frozen=True)
class _Partners:
    """Segments that a random B may begin with, in the order of their documents' numbers."""

    segments: np.ndarray
    documents: np.ndarray

    @classmethod
    def of(cls, text: Text) -> _Partners:
        follows = np.flatnonzero(np.diff(text.documents) == 0) + 1
        order = np.argsort(text.documents[follows], kind="stable")
        return cls(follows[order], text.documents[follows][order])

    def other_than(self, document: int, draw: float) -> int | None:
        """Return a segment of any other document, each equally likely; None if there is no other document."""
        first, behind = np.searchsorted(self.documents, [document, document + 1]).tolist()
        others = len(self.documents) - (behind - first)
        if not others:
            return None
        chosen = int(draw * others)
        return int(self.segments[chosen if chosen < first else chosen + behind - first])


def _chunks(sizes: Sequence[int], first: int, behind: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the segments of each pair of a document: the first, and the one behind the last."""
    start = first
    while start < behind and behind - first > 1:
        start = min(start, behind - 2)
        stop = _filled(sizes, start, start + 2, behind, room)
        yield start, stop
        start = stop


def _filled(sizes: Sequence[int], start: int, least: int, most: int, room: int) -> int:
    """Return the end of the segments from `start` that fit into the room: between `least` and `most`."""
    end, filled = least, sum(sizes[start:least])
    while end < most and filled + sizes[end] <= room:
        filled += sizes[end]
        end += 1
    return end


def _mentions(text: Text, begin: np.ndarray, end: np.ndarray, places: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    """Return the column `mentions` of pairs whose sides are these ranges, with first tokens at these places."""
    side, mention = text.mentions_inside(begin, end)
    shift = (places - begin)[side]
    taken = text.mentions.take(pa.array(mention))
    moved = {"start": text.starts[mention] + shift, "end": text.ends[mention] + shift}
    values = [
        pa.array(moved[one.name].astype(np.uint16)) if one.name in moved else taken.field(one.name)
        for one in kind.value_type
    ]
    counts = np.bincount(side // 2, minlength=len(begin) // 2)  # two sides make a row
    return _lists(pa.StructArray.from_arrays(values, fields=list(kind.value_type)), _borders(counts), kind)


def _mentions_of(text: Text, sides: np.ndarray) -> int:
    """Return the number of mentions in sides (P, 2, 2)."""
    begin, end = sides.reshape(-1, 2).T
    return len(text.mentions_inside(begin, end)[0])


def _borders(counts: np.ndarray) -> np.ndarray:
    """Return where each of some lists begins and the last ends, laid end to end."""
    return np.concatenate([[0], np.cumsum(counts)])


def _lists(values: pa.Array, borders: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), values, type=kind)
