"""Sequences of words that occur in a stream of codes: mining the frequent ones, and counting given ones.

A stream holds word ids and, between sentences, negative codes. Sequences form a trie, level by level: a sequence of n
words is the pair (its first n - 1 words, its last), so that no hash can mix up two of them. `nodes` of a level say
which sequence begins at each place of the stream, -1 for none.

Mining is Apriori, as in AutoPhrase: time grows with the words (a sort a level of what is still frequent), and so does
memory: 4 bytes a word and level that stay, and some arrays of the stream's length meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WORDS_AT_ONCE = 1 << 20
"""Codes that are counted in one pass over arrays."""


@dataclass(frozen=True)
class Level:
    """The frequent sequences of n words, numbered by (first n - 1 words, last word)."""

    length: int
    counts: np.ndarray
    """Occurrences, int64 (P,)."""
    first: np.ndarray
    """A place of the stream at which each occurs, int64 (P,)."""
    nodes: np.ndarray
    """Number of the sequence that begins at each place, -1 for none; int32 (T,)."""


def mine(stream: np.ndarray, words: int, min_support: int, max_length: int) -> list[Level]:
    """All sequences of 1 to `max_length` words that occur `min_support` times and more, by length.

    Args:
        stream: int32 (T,); codes from 0 to `words` - 1, negative between sentences.
    """
    nodes = stream.astype(np.int64)
    levels: list[Level] = []
    for length in range(1, max_length + 1):
        if length > 1:
            nodes = _joined(levels[-1].nodes, levels[0].nodes, length)
        places = np.flatnonzero(nodes >= 0)
        keys = nodes[places]
        if length > 1:
            keys = keys * words + stream[places + length - 1]
        found, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        frequent = counts >= min_support
        if not frequent.any():
            break
        number = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        at = np.full(len(stream), -1, dtype=np.int32)
        at[places] = number[inverse]
        levels.append(Level(length, counts[frequent], places[first[frequent]], at))
        del found, keys
    return levels


def _joined(shorter: np.ndarray, single: np.ndarray, length: int) -> np.ndarray:
    """Where a frequent sequence of `length` words may begin: its first words' node, if both ends are frequent."""
    nodes = np.full(len(shorter), -1, dtype=np.int64)
    room = len(shorter) - length + 1
    if room > 0:
        possible = (shorter[:room] >= 0) & (shorter[1 : room + 1] >= 0) & (single[length - 1 :] >= 0)
        nodes[:room][possible] = shorter[:room][possible]
    return nodes


class Sequences:
    """Given sequences of word ids, to be counted in streams."""

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
        """Nodes of sequences with one word more, -1 where there is none."""
        keys = self._keys[level]
        wanted = nodes * self._words + words
        found = np.searchsorted(keys, wanted)
        found[found == len(keys)] = 0
        return np.where((words >= 0) & (keys[found] == wanted), found, -1)

    def counts(self) -> list[int]:
        """Occurrences of each sequence, in the order in which they were given."""
        numbers: list[int] = []
        for ids in self._sequences:
            node = 0
            for length, word in enumerate(ids):
                node = int(np.searchsorted(self._keys[length], node * self._words + word))
            numbers.append(int(self._counts[len(ids) - 1][node]))
        return numbers


def pieces_of(stream: np.ndarray, end: int, size: int = WORDS_AT_ONCE) -> Iterator[np.ndarray]:
    """A stream in pieces of about `size` codes, each cut after a code `end`."""
    start = 0
    while start < len(stream):
        stop = min(start + size, len(stream))
        while stop < len(stream) and stream[stop - 1] != end:
            ahead = np.flatnonzero(stream[stop : stop + size] == end)
            stop = stop + int(ahead[0]) + 1 if len(ahead) else min(stop + size, len(stream))
        yield stream[start:stop]
        start = stop
