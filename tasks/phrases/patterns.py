"""Sequences of words in a stream of codes: mining the frequent ones, and counting given ones.

A stream contains word ids and, between sentences, negative codes. Mining is Apriori, as in AutoPhrase: a sequence of n
words is frequent only if its first n - 1 are. All sequences that begin with a word are at the places of that word, so
words can be divided into shares: each is mined independently, and together, in order, they give the whole result.

Time grows with the words (one sort per length of what is still frequent), memory with the places of a share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WORDS_AT_ONCE = 1 << 20
"""Number of codes counted in one pass over arrays."""


@dataclass(frozen=True)
class Windows:
    """Places of some words in a stream, with their surroundings."""

    codes: np.ndarray
    """The code before each place, and the codes from it on; int32 (N, longest sequence + 2)."""
    segments: np.ndarray
    """Number of its segment, int64 (N,)."""
    shares: np.ndarray
    """Share of the segment before it, float64 (N,)."""

    def at(self, chosen: np.ndarray) -> Windows:
        """Return some of the places."""
        return Windows(self.codes[chosen], self.segments[chosen], self.shares[chosen])


def windows_of(pieces: Iterable[np.ndarray], words: range, max_length: int, end: int) -> Windows:
    """Return the places of `words`, in the order of the stream.

    Args:
        pieces: a stream in pieces; `end` is the last code of every segment and of every piece.
    """
    found: list[Windows] = []
    before = 0
    for piece in pieces:
        borders = np.flatnonzero(piece == end)
        places = np.flatnonzero((piece >= words.start) & (piece < words.stop))
        segments = np.searchsorted(borders, places)
        begins = np.concatenate([[0], borders + 1])[segments]
        # Whatever is beyond the end of a segment is never used.
        padded = np.concatenate([[end], piece, np.full(max_length, end)]).astype(np.int32)
        codes = padded[places[:, None] + np.arange(max_length + 2)]
        found.append(Windows(codes, before + segments, (places - begins) / np.maximum(1, borders[segments] - begins)))
        before += len(borders)
    return Windows(*(np.concatenate([getattr(one, name) for one in found]) for name in ("codes", "segments", "shares")))


@dataclass(frozen=True)
class Level:
    """Frequent sequences of n words, in the order of their ids."""

    ids: np.ndarray
    """Their words, int32 (P, n)."""
    counts: np.ndarray
    """Occurrences, int64 (P,)."""
    segments: np.ndarray
    """Number of segments that contain them, int64 (P,)."""
    contexts: np.ndarray
    """Entropy of the words to the left and to the right, in nats; shares of the occurrences at the start and at the end
    of a sentence; mean share of the segment before them: float64 (P, 5)."""

    @property
    def length(self) -> int:
        """Number of words in each sequence."""
        return int(self.ids.shape[1])


def mine(around: Windows, words: int, min_support: int) -> Iterator[Level]:
    """Yield all sequences that begin at the given places and occur at least `min_support` times, by length.

    Args:
        around: all places of the first words of the sequences, in the order of the stream.
        words: number of words in the vocabulary; their codes run from 0 to `words` - 1.
    """
    nodes = np.zeros(len(around.codes), dtype=np.int64)
    for length in range(1, around.codes.shape[1] - 1):
        # Column 0 is the code before the place, so column `length` is the sequence's last word, which may not be a
        # mark. Places with equal keys have the same sequence: its first words are the node, its last is added.
        inside = np.flatnonzero(around.codes[:, length] >= 0)
        keys = nodes[inside] * words + around.codes[inside, length]
        order = np.argsort(keys, kind="stable")
        _, counts = np.unique(keys[order], return_counts=True)
        frequent = counts >= min_support
        if not frequent.any():
            return
        around = around.at(inside[order[np.repeat(frequent, counts)]])
        counts = counts[frequent]
        nodes = np.repeat(np.arange(len(counts)), counts)
        yield _level(around, nodes, counts, length)


def _level(around: Windows, nodes: np.ndarray, counts: np.ndarray, length: int) -> Level:
    """Return sequences from their places; those of one sequence are adjacent, in the order of the stream."""
    before, after = around.codes[:, 0], around.codes[:, length + 1]
    is_new = np.concatenate([[True], (np.diff(nodes) > 0) | (np.diff(around.segments) > 0)])
    contexts = [
        _entropy(nodes, before, counts),
        _entropy(nodes, after, counts),
        *(np.bincount(nodes, values, len(counts)) / counts for values in (before < 0, after < 0, around.shares)),
    ]
    first = np.cumsum(counts) - counts
    return Level(
        ids=around.codes[first, 1 : length + 1],
        counts=counts,
        segments=np.bincount(nodes[is_new], minlength=len(counts)),
        contexts=np.stack(contexts, axis=1),
    )


def _entropy(nodes: np.ndarray, neighbours: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return the entropy of the neighbours of each sequence, in nats; all marks count as one neighbour."""
    width = int(neighbours.max(initial=0)) + 2
    keys, counts = np.unique(nodes * np.int64(width) + np.maximum(neighbours, -1) + 1, return_counts=True)
    owners = keys // width
    share = counts / occurrences[owners]
    return np.bincount(owners, -share * np.log(share), len(occurrences))


class Sequences:
    """Counts given sequences of word ids in streams."""

    def __init__(self, sequences: Sequence[tuple[int, ...]], words: int) -> None:
        self._words = words
        self._sequences = sequences
        self._keys: list[np.ndarray] = []
        nodes: dict[tuple[int, ...], int] = {(): 0}
        for length in range(1, max(map(len, sequences), default=0) + 1):
            prefixes = {ids[:length] for ids in sequences if len(ids) >= length}
            keyed = sorted((nodes[prefix[:-1]] * words + prefix[-1], prefix) for prefix in prefixes)
            nodes = {prefix: number for number, (_, prefix) in enumerate(keyed)}
            self._keys.append(np.array([key for key, _ in keyed], dtype=np.int64))
        self._counts = [np.zeros(len(keys), dtype=np.int64) for keys in self._keys]
        self._first_words = np.full(words, -1, dtype=np.int64)
        if self._keys:
            self._first_words[self._keys[0]] = np.arange(len(self._keys[0]))

    def add(self, stream: np.ndarray) -> None:
        """Count the sequences in a piece of a stream that ends between two sentences."""
        places = np.flatnonzero(stream >= 0)
        nodes = self._first_words[stream[places]] if self._keys else np.zeros(0, dtype=np.int64)
        for length, counts in enumerate(self._counts, 1):
            places, nodes = places[nodes >= 0], nodes[nodes >= 0]
            counts += np.bincount(nodes, minlength=len(counts))
            if length < len(self._keys):
                inside = places + length < len(stream)
                places, nodes = places[inside], nodes[inside]
                nodes = self._longer(nodes, stream[places + length], length)

    def _longer(self, nodes: np.ndarray, words: np.ndarray, level: int) -> np.ndarray:
        """Return the nodes of sequences with one more word, or -1."""
        keys = self._keys[level]
        wanted = nodes * self._words + words
        found = np.searchsorted(keys, wanted)
        found[found == len(keys)] = 0
        return np.where((words >= 0) & (keys[found] == wanted), found, -1)

    def counts(self) -> list[int]:
        """Return the occurrences of each sequence, in the order in which they were given."""
        numbers: list[int] = []
        for ids in self._sequences:
            node = 0
            for length, word in enumerate(ids):
                node = int(np.searchsorted(self._keys[length], node * self._words + word))
            numbers.append(int(self._counts[len(ids) - 1][node]))
        return numbers


def pieces_of(stream: np.ndarray, end: int, size: int = WORDS_AT_ONCE) -> Iterator[np.ndarray]:
    """Yield a stream in pieces of about `size` codes, each cut after a code `end`."""
    start = 0
    while start < len(stream):
        stop = min(start + size, len(stream))
        while stop < len(stream) and stream[stop - 1] != end:
            ahead = np.flatnonzero(stream[stop : stop + size] == end)
            stop = stop + int(ahead[0]) + 1 if len(ahead) else min(stop + size, len(stream))
        yield stream[start:stop]
        start = stop
