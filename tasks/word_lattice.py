"""Jieba's cuts over arrays: the words of many texts at once, exactly those of jieba without its hidden Markov model.

Jieba finds all dictionary words in a run of Chinese characters, letters and digits and takes the likeliest path
through them. Here a batch of texts is laid end to end, and every step goes over all of it: the trie of the
dictionary is walked from each character, the text falls apart where no word crosses, and the paths of all these
fragments, a few characters each, are found side by side.

Two paths that are equally likely are told apart by the rounding of jieba's sums, which run over the whole run of
characters. Runs with such paths, and those with very long fragments, are cut by rjieba itself.

Time grows with the characters: about 0.1 µs each. Memory: about 150 bytes a character of the batch, and 40 MB for
the dictionary.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

LONGEST_WORD, LONGEST_FRAGMENT = 6, 8
"""Characters of words and fragments that are searched side by side: nearly all."""

LONGEST_RUN = 10_000
"""Characters of a run over which the rounding of a sum of logarithms stays far below `CLOSE`."""

CLOSE = 1e-6
"""Difference of log probabilities under which rounding may decide."""

_CODES = 0x10000
"""Code points with a class and a number of their own; those beyond are in no run."""

_OUTSIDE, _LETTER, _OTHER = range(3)
_NODE_BITS = np.uint64(24)
_NODE_MASK = np.uint64(2**24 - 1)
_CR, _LF = ord("\r"), ord("\n")


class Trie(NamedTuple):
    """The dictionary: nodes are the prefixes of its words, node 0 is none."""

    number: np.ndarray
    """uint64 (_CODES + 1,): by code point, the number of a character; 0 for those in no word."""
    first: np.ndarray
    """uint64 (_CODES + 1,): by code point, the node of the character."""
    single: np.ndarray
    """float64 (_CODES + 1,): by code point, its log probability alone, that of frequency 1 where it is no word."""
    only_begins: np.ndarray
    """bool (_CODES + 1,): by code point, whether the character is no word."""
    table: np.ndarray
    """uint64 (slots,): a hash table of the further nodes, each with its parent and the number of its character
    (`_key`); 0 where a slot is empty."""
    weight: np.ndarray
    """float64: by node, the log probability of its word; -inf where it is only the beginning of one."""
    depth: int
    """Characters of the longest word."""


def cut_batch(texts: Sequence[str], trie: Trie, fallback: Callable[[str], list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the words of all texts, end to end, and where each text's words begin (and the last's end).

    Args:
        texts: without bounds; a batch of 2^18 characters runs fastest.
        trie: see `trie_of`.
        fallback: cuts a run as jieba does.

    Returns:
        int64 lengths in characters, and int64 (T + 1,) borders.
    """
    whole = "\n".join([*texts, ""])
    points = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    if not len(points):
        return np.zeros(0, dtype=np.int64), np.zeros(len(texts) + 1, dtype=np.int64)
    starts = _word_starts(np.minimum(points, _CODES).astype(np.int64), trie, fallback, whole)
    ends = np.cumsum([len(text) + 1 for text in texts]) - 1  # where the \n after each text stands
    starts[1:] &= ~((points[1:] == _LF) & (points[:-1] == _CR))
    starts[ends] = True
    places = np.flatnonzero(np.append(starts, True))
    separators = np.searchsorted(places, ends)
    lengths = np.delete(np.diff(places), separators)
    borders = np.concatenate([[0], separators - np.arange(len(texts))])
    return lengths, borders


def _word_starts(codes: np.ndarray, trie: Trie, fallback: Callable[[str], list[str]], whole: str) -> np.ndarray:
    """bool by character: whether a word begins with it."""
    classes = _classes()[codes]
    lattice = _lattice(codes, trie)
    starts = ~lattice.crossed
    doubtful = _cut_fragments(starts, lattice)
    letters = starts & np.append(starts[1:], True) & (classes == _LETTER)
    starts[1:] &= ~(letters[1:] & letters[:-1])
    for start, end in _doubtful_runs(doubtful, classes):
        starts[start:end] = False
        lengths = np.fromiter(map(len, fallback(whole[start:end])), dtype=np.int64)
        starts[start + np.cumsum(lengths) - lengths] = True
    return starts


class _Lattice(NamedTuple):
    """The words of the dictionary that stand in a text of N characters."""

    weights: Mapping[int, np.ndarray]
    """float64 (N,) by length in characters: log probability of the word that begins here; -inf where there is none.
    A single character is always there, but where it is no word and others begin with it."""
    crossed: np.ndarray
    """bool (N,): whether a word goes on from the character before."""
    too_long: np.ndarray
    """int64: where words begin that are longer than `LONGEST_WORD`."""


def _lattice(codes: np.ndarray, trie: Trie) -> _Lattice:
    size = len(codes)
    numbers, nodes, single = trie.number[codes], trie.first[codes], trie.single[codes]
    weights, crossed, too_long = {1: single}, np.zeros(size, dtype=bool), []
    places = np.flatnonzero(nodes[:-1] != 0)
    nodes = nodes[places]
    for length in range(2, trie.depth + 1):
        places = places[: np.searchsorted(places, size - length, side="right")]
        if not len(places):
            break
        nodes = _children(trie, nodes[: len(places)], numbers[places + (length - 1)])
        alive = np.flatnonzero(nodes != 0)
        places, nodes = places[alive], nodes[alive]
        weight = trie.weight[nodes.view(np.int64)]
        whole = np.flatnonzero(weight > -np.inf)
        words = places[whole]
        for passed in range(1, length):
            crossed[words + passed] = True
        single[words[np.flatnonzero(trie.only_begins[codes[words]])]] = -np.inf
        if length > LONGEST_WORD:
            too_long.append(words)
        elif len(words):
            weights[length] = np.full(size, -np.inf)
            weights[length][words] = weight[whole]
    return _Lattice(weights, crossed, np.concatenate([np.zeros(0, dtype=np.int64), *too_long]))


def _children(trie: Trie, parents: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """uint64: the nodes that follow `parents` by a character; 0 where there is none."""
    keys, bits = _key(parents, numbers), len(trie.table).bit_length() - 1
    slots = _slot(keys, bits)
    there = trie.table[slots]
    hit = (there >> _NODE_BITS) == keys
    nodes = np.where(hit, there & _NODE_MASK, 0)
    open_ = np.flatnonzero(~hit)
    open_ = open_[np.flatnonzero(there[open_] != 0)]
    while len(open_):
        slots[open_] = further = (slots[open_] + 1) & (len(trie.table) - 1)
        there = trie.table[further]
        hit = (there >> _NODE_BITS) == keys[open_]
        hits = np.flatnonzero(hit)
        nodes[open_[hits]] = there[hits] & _NODE_MASK
        open_ = open_[np.flatnonzero(~hit & (there != 0))]
    return nodes


def _key(parents: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """uint64: never 0 for a parent that is a node; one with number 0 is no key of the table."""
    return (parents << np.uint64(16)) | numbers


def _slot(keys: np.ndarray, bits: int) -> np.ndarray:
    """int64 in [0, 2^bits): where the search for a key begins."""
    return ((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)).view(np.int64)


def _cut_fragments(starts: np.ndarray, lattice: _Lattice) -> np.ndarray:
    """Mark the starts of words within fragments; returns places in fragments whose cut is in doubt.

    A fragment is what lies between two places that no word crosses. Those of equal size are searched together.
    """
    borders = np.flatnonzero(np.append(starts, True))
    sizes = np.diff(borders)
    doubtful = [lattice.too_long, borders[np.flatnonzero(sizes > LONGEST_FRAGMENT)]]
    for size in range(2, min(LONGEST_FRAGMENT, int(sizes.max(initial=1))) + 1):
        begins = borders[np.flatnonzero(sizes == size)]
        if len(begins):
            with np.errstate(invalid="ignore"):  # two ways that are not there are not close
                doubtful.append(_cut_equal(starts, lattice.weights, begins, size))
    return np.concatenate(doubtful)


def _cut_equal(starts: np.ndarray, weights: Mapping[int, np.ndarray], begins: np.ndarray, size: int) -> np.ndarray:
    """Cut fragments of `size` characters: the likeliest path from each character to the end, the last one first.

    Of equally likely ways jieba takes the longer word; returns the fragments where rounding may decide.
    """
    best = np.zeros((size + 1, len(begins)))
    taken = np.ones((size, len(begins)), dtype=np.int64)
    close = np.zeros(len(begins), dtype=bool)
    for offset in range(size - 1, -1, -1):
        places = begins + offset
        top = weights[1][places] + best[offset + 1]
        for length in range(2, size - offset + 1):
            if length in weights:
                way = weights[length][places] + best[offset + length]
                close |= np.abs(way - top) < CLOSE
                taken[offset, np.flatnonzero(way > top)] = length
                np.maximum(top, way, out=top)
        best[offset] = top
    at, here = np.zeros(len(begins), dtype=np.int64), np.arange(len(begins))
    while len(here):
        starts[begins[here] + at] = True
        at = at + taken[at, here]
        inside = np.flatnonzero(at < size)
        at, here = at[inside], here[inside]
    return begins[np.flatnonzero(close)]


def _doubtful_runs(places: np.ndarray, classes: np.ndarray) -> list[tuple[int, int]]:
    """The runs of characters, as jieba cuts a text into, that hold one of the places or are very long."""
    outside = np.flatnonzero(np.concatenate([[True], classes == _OUTSIDE, [True]])) - 1
    long = np.flatnonzero(np.diff(outside) > LONGEST_RUN) + 1
    after = np.union1d(np.searchsorted(outside, places), long)
    return list(zip((outside[after - 1] + 1).tolist(), outside[after].tolist(), strict=True))


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
    words, counts = [words[place] for place in kept.tolist()], counts[kept].astype(np.float64)
    lengths, points = _lengths_and_points(words)
    begins, longest = np.cumsum(lengths) - lengths, int(lengths.max(initial=1))
    known = np.unique(points)
    number = np.zeros(_CODES + 1, dtype=np.uint64)
    number[known] = np.arange(1, len(known) + 1)
    parent = np.zeros(len(words), dtype=np.uint64)
    keys, count, nodes = [], [np.zeros(1)], 1
    for depth in range(longest):
        alive = np.flatnonzero(lengths > depth)
        found, place = np.unique(_key(parent[alive], number[points[begins[alive] + depth]]), return_inverse=True)
        parent[alive] = place + nodes
        ending = np.flatnonzero(lengths[alive] == depth + 1)
        here = np.zeros(len(found))
        here[place[ending]] = counts[alive[ending]]
        keys.append(found)
        count.append(here)
        nodes += len(found)
    log_total = math.log(total)
    first, single = np.zeros(_CODES + 1, dtype=np.uint64), np.full(_CODES + 1, -log_total)
    beginning = known[keys[0].astype(np.int64) - 1]
    first[beginning] = np.arange(1, len(beginning) + 1)
    single[beginning] = np.log(np.maximum(count[1], 1)) - log_total
    only_begins = np.ones(_CODES + 1, dtype=bool)
    only_begins[beginning] = count[1] == 0
    with np.errstate(divide="ignore"):
        weight = np.log(np.concatenate(count)) - log_total
    table = _hash_table(np.concatenate([np.zeros(0, dtype=np.uint64), *keys[1:]]), 1 + len(beginning))
    return Trie(number, first, single, only_begins, table, weight, longest)


def _lengths_and_points(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    return lengths, np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _hash_table(keys: np.ndarray, first_node: int) -> np.ndarray:
    """An open-addressed table, at most a quarter full, of keys whose nodes are numbered from `first_node`."""
    bits = max(4, int(3 * len(keys)).bit_length())
    table = np.zeros(1 << bits, dtype=np.uint64)
    entries = (keys << _NODE_BITS) | np.arange(first_node, first_node + len(keys), dtype=np.uint64)
    slots = _slot(keys, bits)
    while len(entries):
        free = np.flatnonzero(table[slots] == 0)
        taken, winners = np.unique(slots[free], return_index=True)
        winners = free[winners]
        table[taken] = entries[winners]
        entries, slots = np.delete(entries, winners), (np.delete(slots, winners) + 1) & (len(table) - 1)
    return table
