"""Jieba's cuts in machine code: the words of many texts at once, those of jieba without its hidden Markov model.

Jieba finds all dictionary words in a run of Chinese characters, letters and digits and takes the likeliest path
through them, from the run's end to its beginning; of equally likely words the longest. The same sums are made here in
the same order, so that rounding decides alike, over a trie of the dictionary in one hash table.

Time grows with the characters times the words that begin with each. Memory: 24 bytes a character of the batch, and 20
MB for the dictionary.
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
"""Code points with a class and a number of their own; those beyond are in no run."""

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
    """A dictionary: its beginnings of words are nodes, numbered from 1."""

    number: np.ndarray
    """uint64 (_CODES + 1,) by code point: the character's own number; 0 where no word holds it."""
    first: np.ndarray
    """uint64 (_CODES + 1,) by code point: the node of the character alone; 0 where no word begins with it."""
    alone: np.ndarray
    """float64 (_CODES + 1,) by code point: the log probability of the character as a word; -inf where it is none."""
    table: np.ndarray
    """uint64 (2 · slots,): a hash table of the further nodes. The even places hold the node with its parent and the
    number of its character, 0 where a slot is empty; the odd ones the log probability of its word as a float64, -inf
    where it is only the beginning of one. Side by side, they come in one access to memory."""
    sieve: np.ndarray
    """uint64 (_SIEVE_BITS / 64,): a bit for each hashed key that is in the table. Small enough for the processor's
    own memory, it answers for most keys that are not."""
    rare: float
    """Log probability of a character that is no word."""


def cut_batch(texts: Sequence[str], trie: Trie) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the words of all texts, end to end, and where each text's words begin (and the last's end).

    Args:
        texts: without bounds.
        trie: see `trie_of`.

    Returns:
        int64 lengths in characters, and int64 (T + 1,) borders.
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
    """Fill in `lengths` and `borders`; returns the number of words."""
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
                lengths[words] = 2
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
    """Note in `taken` the length of the word that the likeliest path from each character of a run begins with."""
    slots = np.uint64(len(table) // 2 - 1)
    best[end] = 0.0
    for place in range(end - 1, start - 1, -1):
        top, length = -np.inf, 0
        node, weight, here = first[points[place]], alone[points[place]], place + 1
        while node:
            if weight > -np.inf and weight + best[here] >= top:
                top, length = weight + best[here], here - place
            if here == end:
                break
            key = (node << _NUMBER_BITS) | number[points[here]]
            scattered = key * _SCATTER
            if not _passes(sieve, scattered):
                break
            slot = _slot(scattered, slots)
            while table[2 * slot] and table[2 * slot] >> _NODE_BITS != key:
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
    """Write the words of a run; letters and digits that are words of their own become one where they are neighbours."""
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
    """Whether a hashed key may be in the table."""
    bit = scattered >> _SIEVE_SHIFT
    return (sieve[bit >> _WORD_BITS] >> (bit & _WORD_MASK)) & np.uint64(1)


@compiled
def _slot(scattered: Any, slots: np.uint64) -> Any:
    """Where the search for a hashed key begins in a table of `slots` + 1, a power of two."""
    return (scattered ^ (scattered >> np.uint64(32))) & slots


@functools.cache
def _classes() -> np.ndarray:
    """uint8 (_CODES + 1,) by code point: outside of runs, a letter or digit, another character of runs."""
    classes = np.full(_CODES + 1, _OUTSIDE, dtype=np.uint8)
    classes[0x4E00:0x9FD6] = _OTHER
    classes[list(map(ord, "+#&._%-"))] = _OTHER
    for first, last in ("az", "AZ", "09"):
        classes[ord(first) : ord(last) + 1] = _LETTER
    return classes


@functools.lru_cache(maxsize=2)
def jieba_trie(terms: tuple[str, ...] = ()) -> Trie:
    """The dictionary that ships with jieba, and terms added to it one after the other as `jieba.add_word` does."""
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
    tokenizer.initialized = True
    for term in terms:
        tokenizer.add_word(term)
    return trie_of(list(tokenizer.FREQ), np.array(list(tokenizer.FREQ.values())), tokenizer.total)


def trie_of(words: Sequence[str], counts: np.ndarray, total: int) -> Trie:
    """Lay out a dictionary.

    Words with a character that stands in no run are left out: jieba never finds them.

    Args:
        words: each once, none empty.
        counts: (words,) how often each occurs; one of 0 is no word.
        total: what probabilities are a share of.
    """
    lengths, points = _lengths_and_points(words)
    in_runs = np.minimum.reduceat(_classes()[np.minimum(points, _CODES)], np.cumsum(lengths) - lengths) != _OUTSIDE
    kept = np.flatnonzero(in_runs & (counts > 0))
    words, counts = [words[place] for place in kept.tolist()], counts[kept]
    lengths, points = _lengths_and_points(words)
    begins, longest = np.cumsum(lengths) - lengths, int(lengths.max(initial=1))
    known = np.unique(points)
    number = np.zeros(_CODES + 1, dtype=np.uint64)
    number[known] = np.arange(1, len(known) + 1)
    parent = np.zeros(len(words), dtype=np.uint64)
    keys, of_words, nodes = [], [], 1
    weights = _log_probabilities(counts, total)
    for depth in range(longest):
        alive = np.flatnonzero(lengths > depth)
        own = number[points[begins[alive] + depth]]
        found, place = np.unique((parent[alive] << _NUMBER_BITS) | own, return_inverse=True)
        parent[alive] = place + nodes
        ending = np.flatnonzero(lengths[alive] == depth + 1)
        here = np.full(len(found), -np.inf)
        here[place[ending]] = weights[alive[ending]]
        keys.append(found)
        of_words.append(here)
        nodes += len(found)
    first, alone = np.zeros(_CODES + 1, dtype=np.uint64), np.full(_CODES + 1, -np.inf)
    beginning = known[keys[0].astype(np.int64) - 1]
    first[beginning] = np.arange(1, len(beginning) + 1)
    alone[beginning] = of_words[0]
    further = np.concatenate([np.zeros(0, dtype=np.uint64), *keys[1:]])
    table, sieve = _hash_table(further, np.concatenate([np.zeros(0), *of_words[1:]]), 1 + len(beginning))
    return Trie(number, first, alone, table, sieve, -math.log(total))


def _log_probabilities(counts: np.ndarray, total: int) -> np.ndarray:
    """As jieba rounds them: numpy's logarithm may differ in the last bit."""
    different, place = np.unique(counts, return_inverse=True)
    log_total = math.log(total)
    return np.array([math.log(count) - log_total for count in different.tolist()])[place]


def _lengths_and_points(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    return lengths, points_of("".join(words))


def _hash_table(keys: np.ndarray, weights: np.ndarray, first_node: int) -> tuple[np.ndarray, np.ndarray]:
    """An open-addressed table, at most half full, of keys whose nodes are numbered from `first_node`, and its sieve."""
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
