"""Index of the n-grams of many texts, in which the n-grams of other texts are looked up.

An n-gram is found by a 64-bit hash, and its characters are compared before it counts. Two n-grams of the texts with
one hash (one pair in 10^19) would count as one. A bit table over the first bits of the hashes saves the look-up of
nearly all n-grams that are not in the index.

Memory per n-gram: 8 bytes of hash, 8 of place, 4 of text and 2 to 4 of the bit table; about 60 while it is built.
Workers on one machine share the index: it is mapped from a file if that is local.
"""

from __future__ import annotations

from typing import NamedTuple

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem

from infra.artifacts import open_for_writing

_BASE = 0x9E3779B97F4A7C15
_MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_BITS_PER_NGRAM = 16
_COMPARED_AT_ONCE = 1 << 16


class Matches(NamedTuple):
    """N-grams that were found, one row for each text of the index that holds them."""

    places: np.ndarray
    """int64: start of the n-gram in the forms that were searched; ascending."""
    texts: np.ndarray
    """int64: number of the text in the index."""


class NgramIndex(NamedTuple):
    """The n-grams of some texts."""

    size: np.ndarray
    """int64, one value: characters per n-gram."""
    hashes: np.ndarray
    """uint64, ascending: one for each n-gram and text that holds it."""
    places: np.ndarray
    """int64: place of the n-gram in `points`."""
    points: np.ndarray
    """uint32: forms of the texts, end to end."""
    starts: np.ndarray
    """int64: start of each text, and the end of the last."""
    bits: np.ndarray
    """uint8: the bit table, a power of two in size."""

    @classmethod
    def build(cls, points: np.ndarray, starts: np.ndarray, size: int, max_texts: int) -> NgramIndex:
        """Index forms that are stored end to end, each at least `size` long.

        An n-gram that more than `max_texts` of them hold is left out. Time grows as n log n.
        """
        hashes = hash_ngrams(points, size)
        places = ngram_places(starts, size)
        order = places[np.argsort(hashes[places], kind="stable")]
        hashes, texts = hashes[order], np.searchsorted(starts, order, side="right") - 1
        # Of an n-gram that a text holds several times only the first is kept, as the sort is stable.
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (hashes[1:] != hashes[:-1]) | (texts[1:] != texts[:-1])
        hashes, order = hashes[is_new], order[is_new]
        firsts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        counts = np.diff(np.append(firsts, len(hashes)))
        is_rare = np.repeat(counts <= max_texts, counts)
        hashes, order = hashes[is_rare], order[is_rare]
        return cls(np.array([size]), hashes, order, points, starts, _bit_table(hashes))

    def find(self, points: np.ndarray, starts: np.ndarray) -> Matches:
        """Find n-grams of the index in forms that are stored end to end; none reaches from one form into the next."""
        size = int(self.size[0])
        if len(points) < size or not len(self.hashes):
            return Matches(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        hashes = hash_ngrams(points, size)
        bit = (hashes >> np.uint64(64 - _width(self.bits))).view(np.int64)
        places = np.flatnonzero((self.bits[bit >> 3] >> (bit & 7).astype(np.uint8)) & 1)
        low = np.searchsorted(self.hashes, hashes[places])
        low = np.minimum(low, len(self.hashes) - 1)
        is_found = self.hashes[low] == hashes[places]
        places, low = places[is_found], low[is_found]
        is_whole = places + size <= starts[np.searchsorted(starts, places, side="right")]
        places, low = places[is_whole], low[is_whole]
        span = np.arange(size)
        is_same = np.zeros(len(places), dtype=bool)
        for first in range(0, len(places), _COMPARED_AT_ONCE):
            part = slice(first, first + _COMPARED_AT_ONCE)
            ours = self.points[self.places[low[part]][:, None] + span]
            is_same[part] = (ours == points[places[part][:, None] + span]).all(axis=1)
        places, low = places[is_same], low[is_same]
        counts = np.searchsorted(self.hashes, hashes[places], side="right") - low
        entries = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        texts = np.searchsorted(self.starts, self.places[entries], side="right") - 1
        return Matches(np.repeat(places, counts), texts)

    def texts_held(self) -> int:
        """Return the number of texts with an n-gram in the index; a text that is all template has none."""
        return len(np.unique(np.searchsorted(self.starts, self.places, side="right")))

    def save(self, prefix: str) -> None:
        """Write the index into files (or URIs) that begin with `prefix`."""
        for name, array in self._asdict().items():
            with open_for_writing(f"{prefix}-{name}.npy") as file:
                np.save(file, array)

    @classmethod
    def load(cls, prefix: str) -> NgramIndex:
        """Open what `save` wrote."""
        return cls(*(_array(f"{prefix}-{name}.npy") for name in cls._fields))


def hash_ngrams(points: np.ndarray, size: int) -> np.ndarray:
    """Return hashes of all runs of `size` characters: uint64 (N - size + 1,).

    The hash is a polynomial that is joined from runs of 1, 2, 4, … characters, then mixed.
    """
    count = len(points) - size + 1
    if count <= 0:
        return np.zeros(0, dtype=np.uint64)
    power, length = points.astype(np.uint64), 1  # hashes of runs of 1, 2, 4, … characters
    total, covered, left = None, 0, size
    while True:
        if left & 1:
            if total is None:
                total, covered = power.copy(), length
            else:  # the shorter run comes last
                joined = power[: len(power) - covered] * np.uint64(pow(_BASE, covered, 1 << 64))
                joined += total[length : length + len(joined)]
                total, covered = joined, covered + length
        left >>= 1
        if not left:
            break
        doubled = power[:-length] * np.uint64(pow(_BASE, length, 1 << 64))
        doubled += power[length:]
        power, length = doubled, 2 * length
    assert total is not None
    hashes = total[:count]
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= np.uint64(mixer)
    hashes ^= hashes >> np.uint64(31)
    return hashes


def ngram_places(starts: np.ndarray, size: int) -> np.ndarray:
    """Return the starts of n-grams in forms that are stored end to end, without those that cross into the next form."""
    counts = np.maximum(np.diff(starts) - size + 1, 0)
    return np.repeat(starts[:-1] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _bit_table(hashes: np.ndarray) -> np.ndarray:
    width = max(10, (_BITS_PER_NGRAM * len(hashes)).bit_length())
    bits = np.zeros(1 << width, dtype=bool)
    bits[(hashes >> np.uint64(64 - width)).view(np.int64)] = True
    return np.packbits(bits, bitorder="little")


def _width(bits: np.ndarray) -> int:
    return (8 * len(bits)).bit_length() - 1


def _array(path: str) -> np.ndarray:
    filesystem, local = fsspec.core.url_to_fs(path)
    if isinstance(filesystem, LocalFileSystem):
        mapped: np.ndarray = np.load(local, mmap_mode="r")
        return mapped.view(np.ndarray)  # numpy's class of mapped arrays makes every look-up slower
    with filesystem.open(local, "rb") as file:
        return np.load(file)
