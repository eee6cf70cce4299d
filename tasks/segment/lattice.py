"""Jieba's words in machine code, for many texts at once: those of jieba without its hidden Markov model.

Jieba finds all dictionary words in a run of Chinese characters, letters and digits, and takes the likeliest path
through them, from the run's end to its beginning. Of equally likely words it takes the longest. This module adds the
same numbers in the same order, so that rounding has the same effect. The dictionary is a trie in one hash table.

Time grows with the characters times the words that begin with each. Memory: 24 bytes per character of the batch, and
20 MB for the dictionary.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled

_CODES = 0x10000
"""Number of code points with a class and a number of their own; the others are not part of any run."""

_OUTSIDE, _LETTER, _OTHER = range(3)
_NODE_BITS = np.uint64(24)
_NODE_MASK = np.uint64(2**24 - 1)
_NUMBER_BITS = np.uint64(16)
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_SIEVE_BITS = 1 << 22
_SIEVE_SHIFT = np.uint64(64 - 22)
_WORD_BITS = np.uint64(6)
_WORD_MASK = np.uint64(63)
_CR, _LF = ord("\r"), ord("\n")


class Trie(NamedTuple):
    """A dictionary: the beginnings of its words are nodes, numbered from 1."""

    number: np.ndarray
    """uint64 (_CODES + 1,) by code point: number of the character; 0 if no word contains it."""
    first: np.ndarray
    """uint64 (_CODES + 1,) by code point: node of the character alone; 0 if no word begins with it."""
    alone: np.ndarray
    """float64 (_CODES + 1,) by code point: log probability of the character as a word; -inf if it is not a word."""
    table: np.ndarray
    """uint64 (2 · slots,): a hash table of the other nodes. Even places contain the node with its parent and the number
    of its character, or 0 in an empty slot. Odd places contain the log probability of its word as a float64, or -inf if
    it is only the beginning of one. The two are adjacent, so that one memory access reads both."""
    sieve: np.ndarray
    """uint64 (_SIEVE_BITS / 64,): a bit for each hashed key in the table. It fits into the processor's cache and rules
    out most keys that are not in the table."""
    rare: float
    """Log probability of a character that is not a word."""


def cut_batch(texts: Sequence[str], trie: Trie) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of all texts' words in a row, and the borders between the texts.

    Args:
        texts: texts of any length.
        trie: the dictionary; see `trie_of`.

    Returns:
        Lengths in characters, int64 (W,), and borders, int64 (T + 1,): the first word of each text, and the number
        of all words.
    """
    points, ends = code_points(texts)
    lengths, borders = np.empty(len(points), dtype=np.int64), np.zeros(len(ends), dtype=np.int64)
    words = _cut(
        points,
        ends,
        _classes(),
        trie.number,
        trie.first,
        trie.alone,
        trie.table,
        trie.table.view(np.float64),
        trie.sieve,
        trie.rare,
        lengths,
        borders,
    )
    return lengths[:words].copy(), borders


@compiled
def _cut(
    points: np.ndarray,
    ends: np.ndarray,
    classes: np.ndarray,
    number: np.ndarray,
    first: np.ndarray,
    alone: np.ndarray,
    table: np.ndarray,
    weights: np.ndarray,
    sieve: np.ndarray,
    rare: float,
    lengths: np.ndarray,
    borders: np.ndarray,
) -> int:
    """Fill in `lengths` and `borders`, and return the number of words."""
    best, taken = np.empty(len(points) + 1, dtype=np.float64), np.empty(len(points), dtype=np.int32)
    words = 0
    for text in range(len(ends) - 1):
        place, end = ends[text], ends[text + 1]
        while place < end:
            start = place
            while place < end and classes[min(points[place], _CODES)] != _OUTSIDE:
                place += 1
            if place > start:
                _find_path(points, start, place, number, first, alone, table, weights, sieve, rare, best, taken)
                words = _take_path(points, start, place, classes, taken, lengths, words)
            elif points[place] == _CR and place + 1 < end and points[place + 1] == _LF:
                lengths[words] = 2  # jieba keeps \r\n together
                words, place = words + 1, place + 2
            else:
                lengths[words] = 1
                words, place = words + 1, place + 1
        borders[text + 1] = words
    return words


@compiled
def _find_path(
    points: np.ndarray,
    start: int,
    end: int,
    number: np.ndarray,
    first: np.ndarray,
    alone: np.ndarray,
    table: np.ndarray,
    weights: np.ndarray,
    sieve: np.ndarray,
    rare: float,
    best: np.ndarray,
    taken: np.ndarray,
) -> None:
    """Write to `taken` the length of the first word on the likeliest path from each character of a run."""
    slots = np.uint64(len(table) // 2 - 1)
    best[end] = 0.0
    for place in range(end - 1, start - 1, -1):
        top, length = -np.inf, 0
        # Follow the trie: each node is the beginning of a word, from `place` up to `here`.
        node, weight, here = first[points[place]], alone[points[place]], place + 1
        while node:
            if weight > -np.inf and weight + best[here] >= top:  # >= prefers the longer of equally likely words
                top, length = weight + best[here], here - place
            if here == end:
                break
            key = (node << _NUMBER_BITS) | number[points[here]]
            scattered = key * _SCATTER
            if not _passes(sieve, scattered):
                break
            slot = _slot(scattered, slots)
            while table[2 * slot] and table[2 * slot] >> _NODE_BITS != key:  # taken by another key: try the next slot
                slot = (slot + np.uint64(1)) & slots
            node, weight = table[2 * slot] & _NODE_MASK, weights[2 * slot + 1]
            here += 1
        best[place] = top if length else rare + best[place + 1]
        taken[place] = max(1, length)


@compiled
def _take_path(
    points: np.ndarray,
    start: int,
    end: int,
    classes: np.ndarray,
    taken: np.ndarray,
    lengths: np.ndarray,
    words: int,
) -> int:
    """Write the words of a run; adjacent letters and digits that are words of their own become one word."""
    follows_letter = False
    place = start
    while place < end:
        is_letter = taken[place] == 1 and classes[points[place]] == _LETTER
        if is_letter and follows_letter:
            lengths[words - 1] += 1
        else:
            lengths[words] = taken[place]
            words += 1
        follows_letter = is_letter
        place += taken[place]
    return words


@compiled
def _passes(sieve: np.ndarray, scattered: Any) -> Any:
    """Return 1 if a hashed key may be in the table, else 0."""
    bit = scattered >> _SIEVE_SHIFT
    return (sieve[bit >> _WORD_BITS] >> (bit & _WORD_MASK)) & np.uint64(1)


@compiled
def _slot(scattered: Any, slots: np.uint64) -> Any:
    """Return the first slot of a hashed key in a table of `slots` + 1 slots, a power of two."""
    return (scattered ^ (scattered >> np.uint64(32))) & slots


@functools.cache
def _classes() -> np.ndarray:
    """Return the class of each code point: outside of runs, letter or digit, other in runs: uint8 (_CODES + 1,)."""
    classes = np.full(_CODES + 1, _OUTSIDE, dtype=np.uint8)
    classes[0x4E00:0x9FD6] = _OTHER  # the Chinese characters that jieba knows
    classes[list(map(ord, "+#&._%-"))] = _OTHER
    for first, last in ("az", "AZ", "09"):
        classes[ord(first) : ord(last) + 1] = _LETTER
    return classes


@functools.lru_cache(maxsize=2)
def jieba_trie(terms: tuple[str, ...] = ()) -> Trie:
    """Return jieba's own dictionary, with terms added one after the other as by `jieba.add_word`."""
    import jieba

    with jieba.get_module_res("dict.txt") as file:
        if not terms:
            columns = {"word": pl.String, "count": pl.Int64, "part_of_speech": pl.String}
            entries = pl.read_csv(file, has_header=False, schema=columns, separator=" ", quote_char=None)
            total = int(entries["count"].sum())
            entries = entries.unique("word", keep="last")
            return trie_of(entries["word"].to_list(), entries["count"].to_numpy(), total)
        tokenizer = jieba.Tokenizer()
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
    tokenizer.initialized = True  # otherwise the first call would load the dictionary again
    for term in terms:
        tokenizer.add_word(term)
    return trie_of(list(tokenizer.FREQ), np.array(list(tokenizer.FREQ.values())), tokenizer.total)


def trie_of(words: Sequence[str], counts: np.ndarray, total: int) -> Trie:
    """Return the trie of a dictionary.

    Words with a character outside of runs are left out, because jieba never finds them.

    Args:
        words: distinct words, none of them empty.
        counts: number of occurrences of each word, (W,); a word with 0 is left out.
        total: number of occurrences of all words, by which counts are divided.
    """
    lengths, points = _lengths_and_points(words)
    in_runs = np.minimum.reduceat(_classes()[np.minimum(points, _CODES)], np.cumsum(lengths) - lengths) != _OUTSIDE
    kept = np.flatnonzero(in_runs & (counts > 0))
    lengths, points = _lengths_and_points([words[place] for place in kept.tolist()])
    known = np.unique(points)
    number = np.zeros(_CODES + 1, dtype=np.uint64)
    number[known] = np.arange(1, len(known) + 1)
    # Nodes of one character are looked up by code point, all others in the hash table.
    top, *deeper = _levels(lengths, number[points], _log_probabilities(counts[kept], total))
    first, alone = np.zeros(_CODES + 1, dtype=np.uint64), np.full(_CODES + 1, -np.inf)
    beginning = known[top.keys.astype(np.int64) - 1]
    first[beginning] = np.arange(1, len(beginning) + 1)
    alone[beginning] = top.weights
    keys = np.concatenate([np.zeros(0, dtype=np.uint64), *(level.keys for level in deeper)])
    weights = np.concatenate([np.zeros(0), *(level.weights for level in deeper)])
    table, sieve = _hash_table(keys, weights, 1 + len(beginning))
    return Trie(number, first, alone, table, sieve, -math.log(total))


class _Level(NamedTuple):
    """The nodes of a trie at one depth, numbered after those of the levels above."""

    keys: np.ndarray
    """Parent node and number of the last character, packed into one number: uint64 (N,), ascending."""
    weights: np.ndarray
    """Log probability of the word that ends at the node, or -inf: float64 (N,)."""


def _levels(lengths: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> list[_Level]:
    """Return the nodes of a dictionary, level by level.

    Args:
        lengths: characters of each word, int64 (W,).
        numbers: numbers of all words' characters in a row, uint64 (C,).
        weights: log probability of each word, float64 (W,).
    """
    begins = np.cumsum(lengths) - lengths
    parent = np.zeros(len(lengths), dtype=np.uint64)  # of each word, the node of its first `depth` characters
    levels: list[_Level] = []
    nodes = 1
    for depth in range(int(lengths.max(initial=1))):
        alive = np.flatnonzero(lengths > depth)
        own = numbers[begins[alive] + depth]
        keys, place = np.unique((parent[alive] << _NUMBER_BITS) | own, return_inverse=True)
        parent[alive] = place + nodes
        ending = np.flatnonzero(lengths[alive] == depth + 1)
        of_words = np.full(len(keys), -np.inf)
        of_words[place[ending]] = weights[alive[ending]]
        levels.append(_Level(keys, of_words))
        nodes += len(keys)
    return levels


def _log_probabilities(counts: np.ndarray, total: int) -> np.ndarray:
    """Return log probabilities rounded as by jieba: numpy's logarithm may differ in the last bit."""
    different, place = np.unique(counts, return_inverse=True)
    log_total = math.log(total)
    return np.array([math.log(count) - log_total for count in different.tolist()])[place]


def _lengths_and_points(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    return lengths, points_of("".join(words))


def _hash_table(keys: np.ndarray, weights: np.ndarray, first_node: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an open-addressed table of keys, at most half full, and its sieve.

    The nodes of the keys are numbered from `first_node`.
    """
    slots = 1 << max(4, int(2 * len(keys)).bit_length())
    table, sieve = np.zeros(2 * slots, dtype=np.uint64), np.zeros(_SIEVE_BITS // 64, dtype=np.uint64)
    _fill(table, table.view(np.float64), sieve, keys, weights, first_node)
    return table, sieve


@compiled
def _fill(
    table: np.ndarray, of_slots: np.ndarray, sieve: np.ndarray, keys: np.ndarray, weights: np.ndarray, first_node: int
) -> None:
    slots = np.uint64(len(table) // 2 - 1)
    for place in range(len(keys)):
        scattered = keys[place] * _SCATTER
        bit = scattered >> _SIEVE_SHIFT
        sieve[bit >> _WORD_BITS] |= np.uint64(1) << (bit & _WORD_MASK)
        slot = _slot(scattered, slots)
        while table[2 * slot]:
            slot = (slot + np.uint64(1)) & slots
        table[2 * slot] = (keys[place] << _NODE_BITS) | np.uint64(first_node + place)
        of_slots[2 * slot + 1] = weights[place]
