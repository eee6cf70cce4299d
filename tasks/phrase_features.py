"""What tells a good phrase from a run of words: features after Liu et al. (SegPhrase, SIGMOD 2015, section 4.1).

For a sequence of two words and more: frequency; pointwise mutual information of the two parts that explain it best
(the cut with the largest product of probabilities); entropies of the words to its left and right; how much of a longer
or shorter sequence it is; its length in words and characters; where in sentences and segments it stands; inverse
document frequencies and stop words of its words. A single word has those of them that make sense.

The document of an inverse frequency is a segment. Time and memory grow with the words of the stream (a sort a feature).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.phrase_patterns import Level


@dataclass(frozen=True)
class WordFacts:
    """What is known of each word, arrays of the vocabulary's length."""

    idf: np.ndarray
    """log(segments / segments with the word), float64."""
    is_stop: np.ndarray
    """Stop words, signs and numbers, bool."""
    characters: np.ndarray
    """Length, int64."""


def word_facts(stream: np.ndarray, words: Sequence[str], stop_words: frozenset[str], segment_end: int) -> WordFacts:
    """Facts of all words of a stream."""
    segments = np.cumsum(stream == segment_end)
    is_word = stream >= 0
    pairs = np.unique(segments[is_word] * np.int64(len(words)) + stream[is_word])
    holders = np.bincount(pairs % len(words), minlength=len(words))
    total = max(1, int((stream == segment_end).sum()))
    return WordFacts(
        idf=np.log(total / np.maximum(1, holders)),
        is_stop=np.array([word in stop_words or word.isnumeric() for word in words], dtype=bool),
        characters=np.array([len(word) for word in words], dtype=np.int64),
    )


def features_of(
    levels: Sequence[Level], number: int, stream: np.ndarray, facts: WordFacts, segment_end: int
) -> np.ndarray:
    """Features of all sequences of `levels[number]`, float64 (P, F); single words have others than the rest."""
    level = levels[number]
    ids = stream[level.first[:, None] + np.arange(level.length)]
    columns = [
        np.log(level.counts),
        *_contexts(level, stream, segment_end),
        *_supersequences(levels, number),
        facts.characters[ids].sum(axis=1),
        *_word_columns(ids, facts),
    ]
    if level.length > 1:
        columns += [*_association(levels, number, int((stream >= 0).sum())), np.full(len(ids), level.length)]
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def _association(levels: Sequence[Level], number: int, words: int) -> list[np.ndarray]:
    """Mutual information of the two likeliest parts: bare, normalised, times frequency; share of its larger part."""
    level = levels[number]
    chance = level.counts / (words / level.length)
    parts, larger = np.zeros(len(chance)), level.counts.astype(np.float64)
    for cut in range(1, level.length):
        left, right = levels[cut - 1], levels[level.length - cut - 1]
        left_counts = left.counts[left.nodes[level.first]]
        right_counts = right.counts[right.nodes[level.first + cut]]
        product = left_counts / (words / left.length) * (right_counts / (words / right.length))
        parts = np.maximum(parts, product)
        if cut == 1:
            larger = np.maximum(larger, right_counts)
        if cut == level.length - 1:
            larger = np.maximum(larger, left_counts)
    information = np.log(chance / parts)
    return [information, information / -np.log(chance), information * level.counts, level.counts / larger]


def _contexts(level: Level, stream: np.ndarray, segment_end: int) -> list[np.ndarray]:
    """Entropies to both sides, the smaller of them, shares at starts and ends of sentences, place in the segment."""
    places = np.flatnonzero(level.nodes >= 0)
    nodes = level.nodes[places]
    before = np.where(places > 0, stream[places - 1], segment_end)
    after = stream[places + level.length]  # a segment's end at the latest
    left, right = _entropy(nodes, before, level), _entropy(nodes, after, level)
    starts, ends = (np.bincount(nodes, side < 0, len(level.counts)) / level.counts for side in (before, after))
    borders = np.flatnonzero(stream == segment_end)
    segment = np.searchsorted(borders, places)
    begins = np.concatenate([[0], borders + 1])[segment]
    place = (places - begins) / np.maximum(1, borders[segment] - begins)
    return [
        left,
        right,
        np.minimum(left, right),
        starts,
        ends,
        np.bincount(nodes, place, len(level.counts)) / level.counts,
    ]


def _entropy(nodes: np.ndarray, neighbours: np.ndarray, level: Level) -> np.ndarray:
    """Entropy of the neighbours of each sequence, in nats; all marks count as one neighbour."""
    width = int(neighbours.max(initial=0)) + 2
    keys, counts = np.unique(nodes * np.int64(width) + np.maximum(neighbours, -1) + 1, return_counts=True)
    owners = keys // width
    share = counts / level.counts[owners]
    return np.bincount(owners, -share * np.log(share), len(level.counts))


def _supersequences(levels: Sequence[Level], number: int) -> list[np.ndarray]:
    """How often, of its occurrences, it stands in the most frequent sequence that is a word longer."""
    level = levels[number]
    most = np.zeros(len(level.counts))
    if number + 1 < len(levels):
        longer = levels[number + 1]
        for offset in (0, 1):
            np.maximum.at(most, level.nodes[longer.first + offset], longer.counts)
    return [most / level.counts]


def _word_columns(ids: np.ndarray, facts: WordFacts) -> list[np.ndarray]:
    idf, stop = facts.idf[ids], facts.is_stop[ids]
    columns = [idf.mean(axis=1), stop.mean(axis=1)]
    if ids.shape[1] > 1:
        columns += [idf.min(axis=1), idf.max(axis=1), stop[:, 0], stop[:, -1]]
    return columns
