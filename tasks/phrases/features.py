"""Features that distinguish good phrases from runs of words, after Liu et al. (SegPhrase, SIGMOD 2015, section 4.1).

A sequence of two or more words has: frequency; pointwise mutual information of the two parts that explain it best (the
cut with the largest product of probabilities); entropies of the words to its left and right; its share of longer and
shorter sequences; its length in words and characters; its position in sentences and segments; inverse document
frequencies and stop words of its words. A single word has the features that apply to it.

A document of an inverse frequency is a segment. Features of a sequence alone were counted while mining
(tasks/phrases/patterns.py); here sequences are compared with one another. Time and memory grow with their words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.phrases.patterns import Level


@dataclass(frozen=True)
class WordFacts:
    """Facts about each word: arrays of the vocabulary's length."""

    idf: np.ndarray
    """log(segments / segments with the word), float64."""
    is_stop: np.ndarray
    """Stop words, signs and numbers, bool."""
    characters: np.ndarray
    """Length, int64."""


def word_facts(frequent: Level, words: Sequence[str], stop_words: frozenset[str], segments: int) -> WordFacts:
    """Return facts about all words; words that are not among the `frequent` ones have an idf of 0, which is not used.

    Args:
        segments: number of segments.
    """
    idf = np.zeros(len(words))
    idf[frequent.ids[:, 0]] = np.log(segments / frequent.segments)
    return WordFacts(
        idf=idf,
        is_stop=np.array([word in stop_words or word.isnumeric() for word in words], dtype=bool),
        characters=np.array([len(word) for word in words], dtype=np.int64),
    )


class Tries:
    """Finds sequences among those of their length, in levels from `mine`, which contain all parts of their sequences.

    The key of a sequence of n words is the pair (its first n - 1 words, its last), so no two have the same key.
    """

    def __init__(self, levels: Sequence[Level], words: int) -> None:
        self._words = words
        self._keys: list[np.ndarray] = []
        for level in levels:
            self._keys.append(self._key(level.ids))

    def _key(self, ids: np.ndarray) -> np.ndarray:
        """Return the keys of sequences, int64 (P,), in the order of their words."""
        prefixes = self.find(ids[:, :-1]) if ids.shape[1] > 1 else 0
        return prefixes * np.int64(self._words) + ids[:, -1]

    def find(self, ids: np.ndarray) -> np.ndarray:
        """Return the places of sequences of n words, which must exist, in the level of their length; int64 (P,)."""
        return np.searchsorted(self._keys[ids.shape[1] - 1], self._key(ids))


def features_of(levels: Sequence[Level], facts: WordFacts, words_of_text: int) -> list[np.ndarray]:
    """Return features of all sequences of each level, float64 (P, F); single words have fewer than the others."""
    tries = Tries(levels, len(facts.idf))
    rows = []
    for number, level in enumerate(levels):
        left, right, *places = level.contexts.T
        columns = [np.log(level.counts), left, right, np.minimum(left, right), *places]
        columns += [_supersequences(levels, number, tries), facts.characters[level.ids].sum(axis=1)]
        columns += _word_columns(level.ids, facts)
        if number:
            columns += [*_association(levels, number, tries, words_of_text), np.full(len(level.ids), level.length)]
        rows.append(np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1))
    return rows


def _association(levels: Sequence[Level], number: int, tries: Tries, words: int) -> list[np.ndarray]:
    """Return the mutual information of the two likeliest parts (bare, normalised, times frequency) and the share of the
    larger part."""
    level = levels[number]
    chance = level.counts / (words / level.length)
    parts, larger = np.zeros(len(chance)), level.counts.astype(np.float64)
    for cut in range(1, level.length):
        left, right = levels[cut - 1], levels[level.length - cut - 1]
        left_counts = left.counts[tries.find(level.ids[:, :cut])]
        right_counts = right.counts[tries.find(level.ids[:, cut:])]
        product = left_counts / (words / left.length) * (right_counts / (words / right.length))
        parts = np.maximum(parts, product)
        if cut == 1:
            larger = np.maximum(larger, right_counts)
        if cut == level.length - 1:
            larger = np.maximum(larger, left_counts)
    # Pointwise mutual information; its normalised form is divided by the information of the sequence itself.
    information = np.log(chance / parts)
    return [information, information / -np.log(chance), information * level.counts, level.counts / larger]


def _supersequences(levels: Sequence[Level], number: int, tries: Tries) -> np.ndarray:
    """Return the share of a sequence's occurrences that are in its most frequent extension by one word."""
    level = levels[number]
    most = np.zeros(len(level.counts))
    if number + 1 < len(levels):
        longer = levels[number + 1]
        for part in (longer.ids[:, :-1], longer.ids[:, 1:]):
            np.maximum.at(most, tries.find(part), longer.counts)
    return most / level.counts


def _word_columns(ids: np.ndarray, facts: WordFacts) -> list[np.ndarray]:
    idf, stop = facts.idf[ids], facts.is_stop[ids]
    columns = [idf.mean(axis=1), stop.mean(axis=1)]
    if ids.shape[1] > 1:
        columns += [idf.min(axis=1), idf.max(axis=1), stop[:, 0], stop[:, -1]]
    return columns
