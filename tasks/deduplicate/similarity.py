"""Similarity sketches: `BINS` numbers per text, of which two texts share about the share of their common shingles.

The sketch is that of Dahlgaard, Knudsen and Thorup, "Fast Similarity Sketching" (FOCS 2017), section 2. In a round
every shingle falls into one bin, and a bin keeps the smallest value that falls into it. Rounds go on until no bin is
empty; a value of an earlier round always beats one of a later round. Long texts are done after one or two rounds, so
a character costs a few operations, where MinHash needs one per permutation. The estimate is as precise as MinHash's,
also for short texts.

Bins are then joined to bands of `rows` bins (locality-sensitive hashing). Texts of similarity s share a band with a
chance of 1 - (1 - s^rows)^bands.

Time: texts of n shingles take about n + BINS * ln(BINS) operations. Memory: one batch.
"""

from __future__ import annotations

import functools

import numpy as np

from infra.arrays.compiled import compiled
from infra.schemas import MAX_BANDS
from tasks.deduplicate.shingles import Shingles, mix

BINS = 128
"""Numbers in a sketch."""

ROUNDS = 6
"""Rounds in which shingles fall into any bin; a bin that is still empty then takes the smallest of all shingles."""

_ALL_ONES = np.uint64(2**64 - 1)
_LAST_BIN = np.uint64(BINS - 1)


def sketch(shingles: Shingles, seed: int) -> np.ndarray:
    """Return the sketches of a batch of texts.

    Args:
        shingles: shingles of T texts; a text may have none.
        seed: seed of the hash functions; only sketches of one seed can be compared.

    Returns:
        uint64 (T, BINS); all bits are 1 for a text without shingles. Repeats of a shingle change nothing.
    """
    bins = np.full((len(shingles.borders) - 1, BINS), _ALL_ONES)
    _fill_bins(shingles.hashes, shingles.borders, _keys(seed), bins)
    return bins


@compiled
def _fill_bins(hashes: np.ndarray, borders: np.ndarray, keys: np.ndarray, bins: np.ndarray) -> None:
    is_open = np.empty(BINS, dtype=np.bool_)
    for text in range(len(bins)):
        own, row = hashes[borders[text] : borders[text + 1]], bins[text]
        if not len(own):
            continue
        is_open[:] = True
        for turn in range(ROUNDS):
            for shingle in own:
                value = mix(shingle ^ keys[turn])
                own_bin = np.int64(value & _LAST_BIN)
                # Bins filled in an earlier round are closed: their values beat those of this round.
                if is_open[own_bin] and value < row[own_bin]:
                    row[own_bin] = value
            left = 0
            for place in range(BINS):
                is_open[place] = row[place] == _ALL_ONES
                left += is_open[place]
            if not left:
                break
        for place in range(BINS):
            if is_open[place]:  # it has a hash function of its own, and takes the smallest value of all shingles
                for shingle in own:
                    row[place] = min(row[place], mix(shingle ^ keys[ROUNDS + place]))


def rows_for(threshold: float) -> int:
    """Return the number of bins per band for a threshold.

    Texts as similar as the threshold are then found with a chance of at least 0.99 (0.87 at a threshold of exactly 0.5
    and 0.95 at 0.55, where more bands would cost more than they find).

    Raises:
        ValueError: the threshold is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"A similarity is in (0, 1], not {threshold}.")
    if threshold >= 0.8:
        return 6
    return 5 if threshold >= 0.7 else 4


def bands(bins: np.ndarray, rows: int, groups: np.ndarray) -> np.ndarray:
    """Return the hashes of the bands: texts of one group that agree in all bins of a band share its hash.

    Args:
        bins: uint64 (T, BINS), from `sketch`.
        rows: bins per band.
        groups: uint64 (T,); texts of different groups share no band.

    Returns:
        uint64 (T, BINS // rows), at most MAX_BANDS wide.
    """
    hashes = np.empty((len(bins), min(BINS // rows, MAX_BANDS)), dtype=np.uint64)
    _join_bins(bins, rows, groups, hashes)
    return hashes


@compiled
def _join_bins(bins: np.ndarray, rows: int, groups: np.ndarray, hashes: np.ndarray) -> None:
    for text in range(len(hashes)):
        for band in range(hashes.shape[1]):
            value = groups[text]
            for place in range(band * rows, (band + 1) * rows):
                value = mix(value ^ bins[text, place])
            hashes[text, band] = value


def fingerprints(bins: np.ndarray) -> np.ndarray:
    """Return one byte per bin, which is enough to estimate a similarity: uint8 (T, BINS)."""
    return (bins >> np.uint64(40)).astype(np.uint8)


def estimate(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimate the similarity of pairs of texts from their fingerprints: float64 (P,), standard deviation up to 0.045.

    Args:
        one, other: uint8 (P, BINS).
    """
    share = (one == other).mean(axis=1)
    # Two bytes that are unrelated agree once in 256 times.
    return (share - 1 / 256) / (1 - 1 / 256)


@functools.cache
def _keys(seed: int) -> np.ndarray:
    """Return a hash function for each round, and one for each bin that no round fills: uint64 (ROUNDS + BINS,)."""
    constants = [
        (seed * 0x9E3779B9 + turn * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64 for turn in range(ROUNDS + BINS)
    ]
    return np.array([mix(np.uint64(constant)) for constant in constants], dtype=np.uint64)
