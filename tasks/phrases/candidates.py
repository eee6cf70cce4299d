"""Stage `phrase_candidates`: frequent sequences of words in a text, with their counts and contexts.

Runs inside the stage `phrases`, for the embedded engine. Words are divided among the units of work by their number of
places; a unit reads the whole stream, piece by piece, and keeps the places of its words.

A unit's memory: windows of about `CODES_AT_ONCE` codes, or those of one word that is more frequent, and some arrays of
as many places. Time grows with the text: each unit reads it once, and sorts its places once per length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.phrases.arrays import SharedArray
from tasks.phrases.corpus import SEGMENT_END
from tasks.phrases.patterns import Level, mine, pieces_of, windows_of

CODES_AT_ONCE = 1 << 22
"""Number of codes in all windows of a unit."""


class CandidateParams(StageParams):
    """Criteria for candidates."""

    min_support: int = Field(default=10, ge=1, description="minimum number of occurrences of a phrase")
    max_length: int = Field(default=6, ge=2, le=100, description="maximum number of words in a phrase")


@stage(name="phrase_candidates", version=1, params=CandidateParams, tables=("phrase_candidates",), heavy=True)
def phrase_candidates(inputs: Mapping[str, Any], params: CandidateParams, out: Output) -> None:
    """Mine `inputs["stream"]` (a `SharedArray` of codes, each segment ended by `SEGMENT_END`)."""
    stream: SharedArray = inputs["stream"]
    counts = _word_counts(stream.load())
    shares = word_ranges(counts, CODES_AT_ONCE // (params.max_length + 2))
    out.map(mine_range, shares, stream, len(counts), params)


def _word_counts(stream: np.ndarray) -> np.ndarray:
    """Return the occurrences of each word, int64 (words,)."""
    counts = np.zeros(int(stream.max()) + 1, dtype=np.int64)
    for piece in pieces_of(stream, SEGMENT_END):
        counts += np.bincount(piece[piece >= 0], minlength=len(counts))
    return counts


def word_ranges(counts: np.ndarray, places: int) -> list[tuple[int, int]]:
    """Divide all words into ranges of ids that together occur about `places` times; a more frequent word is a range."""
    stops = np.cumsum(counts)
    ranges, start = [], 0
    while start < len(counts):
        before = int(stops[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(stops, before + places, side="right")))
        ranges.append((start, stop))
        start = stop
    return ranges


def mine_range(
    writer: PartWriter, ids: tuple[int, int], stream: SharedArray, words: int, params: CandidateParams
) -> None:
    """Mine the sequences that begin with a word of a range."""
    pieces = pieces_of(stream.load(), SEGMENT_END)
    for level in mine(windows_of(pieces, range(*ids), params.max_length, SEGMENT_END), words, params.min_support):
        writer.write("phrase_candidates", _table(level))


_CONTEXTS = ("left_entropy", "right_entropy", "at_start", "at_end", "place")


def _table(level: Level) -> pa.Table:
    borders = np.arange(0, level.ids.size + 1, level.length, dtype=np.int32)
    columns = {
        "words": pa.ListArray.from_arrays(
            borders, level.ids.ravel(), type=schemas.PHRASE_CANDIDATES.field("words").type
        ),
        "count": level.counts,
        "segments": level.segments,
        **dict(zip(_CONTEXTS, level.contexts.T, strict=True)),
    }
    return pa.table(columns, schema=schemas.PHRASE_CANDIDATES)


def read_levels(candidates: Artifact) -> Sequence[Level]:
    """Return the candidates by length, those of each length in the order of their ids."""
    table = candidates.to_table("phrase_candidates").combine_chunks()
    lengths = table["words"].combine_chunks().value_lengths().to_numpy()
    levels = []
    for length in range(1, lengths.max(initial=0) + 1):
        rows = table.filter(pa.array(lengths == length))
        ids = rows["words"].combine_chunks().flatten().to_numpy().reshape(-1, length)
        contexts = np.stack([rows[name].to_numpy() for name in _CONTEXTS], axis=1)
        levels.append(Level(ids, rows["count"].to_numpy(), rows["segments"].to_numpy(), contexts))
    return levels
