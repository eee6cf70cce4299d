"""Similarity sketches: `BINS` numbers a text, of which two texts share about as many as they share shingles.

The sketch is that of Dahlgaard, Knudsen and Thorup, "Fast Similarity Sketching" (FOCS 2017), section 2: in a round
every shingle falls into one bin, a bin keeps the smallest value that falls into it, and rounds go on until no bin
is empty; a value of an earlier round always beats one of a later. Long texts are done after one or two rounds, so a
character costs a few operations instead of MinHash's one a permutation, and the estimate is as sharp as MinHash's,
for short texts too.

Bins are then joined to bands of `rows` (locality-sensitive hashing): texts of similarity s share a band with a
chance of 1 - (1 - s^rows)^bands.

Time: texts of n shingles take about n + BINS * ln(BINS) operations. Memory: one batch.
"""

from __future__ import annotations

import numpy as np

from infra.schemas import MAX_BANDS
from tasks.shingles import Shingles, mix

BINS = 128

ROUNDS = 6
"""Rounds in which shingles fall into any bin; bins still empty then take the smallest of all shingles."""

_ALL_ONES = np.uint64(2**64 - 1)


def sketch(shingles: Shingles, seed: int) -> np.ndarray:
    """The sketches of a batch of texts.

    Args:
        shingles: at least none for every text.
        seed: chooses the hash functions; only sketches of one seed can be compared.

    Returns:
        uint64 (T, BINS); all ones for a text without shingles. Repeats of a shingle change nothing.
    """
    counts = np.diff(shingles.borders)
    bins = np.full((len(counts), BINS), _ALL_ONES)
    flat = bins.reshape(-1)
    hashes, owner = shingles.hashes, np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    for turn in range(ROUNDS):
        if turn:
            unfilled = (bins == _ALL_ONES).any(axis=1)
            keep = np.flatnonzero(unfilled[owner])
            hashes, owner = hashes[keep], owner[keep]
        if not len(hashes):
            return bins
        values = mix(hashes ^ _key(seed, turn))
        place = owner * BINS + (values & np.uint64(BINS - 1)).view(np.int64)
        if turn:
            empty = np.flatnonzero(flat[place] == _ALL_ONES)
            values, place = values[empty], place[empty]
        np.minimum.at(flat, place, values)
    _fill(bins, shingles, seed)
    return bins


def _fill(bins: np.ndarray, shingles: Shingles, seed: int) -> None:
    """Give each bin that is still empty the smallest value of a hash function of its own."""
    counts = np.diff(shingles.borders)
    texts, empty = np.nonzero((bins == _ALL_ONES) & (counts > 0)[:, None])
    if not len(texts):
        return
    sizes = counts[texts]
    ends = np.cumsum(sizes)
    place = np.arange(ends[-1]) + np.repeat(shingles.borders[:-1][texts] - (ends - sizes), sizes)
    keys = np.array([_key(seed, ROUNDS + number) for number in range(BINS)])
    values = mix(shingles.hashes[place] ^ np.repeat(keys[empty], sizes))
    bins[texts, empty] = np.minimum.reduceat(values, ends - sizes)


def rows_for(threshold: float) -> int:
    """Bins in a band, so that texts as similar as the threshold are found with a chance of 0.99 and more (of 0.87
    at 0.5 exactly and 0.95 at 0.55: more bands would cost more than they find).

    Raises:
        ValueError: the threshold is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"a similarity lies in (0, 1], not at {threshold}")
    if threshold >= 0.8:
        return 6
    return 5 if threshold >= 0.7 else 4


def bands(bins: np.ndarray, rows: int, groups: np.ndarray) -> np.ndarray:
    """Hashes of the bands: texts of one group that agree in all bins of a band share its hash.

    Args:
        bins: uint64 (T, BINS), from `sketch`.
        rows: bins in a band.
        groups: uint64 (T,); texts of different groups share no band.

    Returns:
        uint64 (T, BINS // rows), at most MAX_BANDS wide.
    """
    count = min(BINS // rows, MAX_BANDS)
    chosen = bins[:, : count * rows].reshape(len(bins), count, rows)
    hashes = np.repeat(groups[:, None], count, axis=1)
    for row in range(rows):
        hashes = mix(hashes ^ chosen[:, :, row])
    return hashes


def fingerprints(bins: np.ndarray) -> np.ndarray:
    """One byte a bin: uint8 (T, BINS), enough to estimate a similarity."""
    return (bins >> np.uint64(40)).astype(np.uint8)


def estimate(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Similarity of pairs of texts, from their fingerprints: float64 (P,), with a deviation of at most 0.045."""
    share = (one == other).mean(axis=1)
    return (share - 1 / 256) / (1 - 1 / 256)


def _key(seed: int, turn: int) -> np.uint64:
    key = np.array([(seed * 0x9E3779B9 + turn * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64], dtype=np.uint64)
    return mix(key)[0]
