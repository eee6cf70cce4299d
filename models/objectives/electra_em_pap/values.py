"""Values of product attributes as arrays in files, and negatives drawn among them (ELECTRA+EM+PAP, section 3.2).

Every process of a node maps the same files, so the values take memory once. A value is a row of token ids; equal rows
are one value, so that no negative reads like a positive.

Shape legend: V values, A attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VALUES = "values"
"""Folder of these files in an artifact of products."""
DRAWN = 4
"""Records that are drawn for each negative, of which some repeat others or are of positives."""


@dataclass(frozen=True)
class ProductValues:
    """Token ids of all values, and the values that each attribute has in training."""

    ids: np.ndarray
    """uint32, the values' token ids end to end, each with [CLS] first and [SEP] last."""
    borders: np.ndarray
    """int64 (V+1,): value v is `ids[borders[v]:borders[v + 1]]`."""
    stated: np.ndarray
    """uint32, the distinct values of each attribute in training, end to end and increasing within an attribute."""
    stated_borders: np.ndarray
    """int64 (A+1,): those of attribute a are `stated[stated_borders[a]:stated_borders[a + 1]]`."""
    counts: np.ndarray
    """uint32, the number of training titles that have each value of `stated`."""

    FILES = ("ids", "borders", "stated", "stated_borders", "counts")

    @classmethod
    def load(cls, folder: Path) -> ProductValues:
        """Return the values that `save` wrote into a folder, mapped from its files."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in cls.FILES))

    def save(self, folder: Path) -> None:
        """Write the arrays into a folder, which exists."""
        for name in self.FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @property
    def attributes(self) -> int:
        """A, the number of attributes."""
        return len(self.stated_borders) - 1

    def tokens(self, value: int) -> np.ndarray:
        """Return the token ids of a value, a view."""
        return self.ids[self.borders[value] : self.borders[value + 1]]

    def most_tokens(self, count: int) -> int:
        """Return the most tokens that `count` distinct values have together."""
        return int(np.sort(np.diff(self.borders))[-count:].sum())

    def of(self, attribute: int) -> np.ndarray:
        """Return the distinct values of an attribute in training, increasing."""
        return self.stated[self.stated_borders[attribute] : self.stated_borders[attribute + 1]]

    def negatives(
        self,
        attribute: int,
        positives: Sequence[int] | np.ndarray,
        count: int,
        draw: np.random.Generator,
        by_frequency: bool = False,
    ) -> np.ndarray:
        """Return distinct values that are not among `positives`, int64 in random order: `count`, or as many as exist.

        They are values of the same attribute, each with equal probability or, `by_frequency`, in proportion to the
        titles that have it. Where these are too few, all of them are taken, and values of other attributes fill up.
        """
        excluded = np.unique(np.asarray(positives, dtype=np.int64))
        frequent = self._frequent(attribute, excluded, count, draw) if by_frequency else excluded[:0]
        known = np.union1d(excluded, frequent)
        rest = others_of(self.of(attribute), known, count - len(frequent), draw)
        own = np.concatenate([frequent, rest])
        if len(own) == count:
            return own
        # Of two dosage forms, tablet and capsule, one positive leaves one negative where two are wanted.
        known = np.union1d(excluded, self.of(attribute))
        return np.concatenate([own, others_of(np.unique(self.stated), known, count - len(own), draw)])

    def _frequent(self, attribute: int, excluded: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
        """Return up to `count` distinct values that are not excluded, drawn in proportion to their counts.

        As many records are drawn at once as mostly suffice; a few values that are missing then are drawn by the caller.
        """
        own = self.of(attribute)
        ends = np.cumsum(self.counts[self.stated_borders[attribute] : self.stated_borders[attribute + 1]])
        if not len(own):
            return excluded[:0]
        drawn = own[np.searchsorted(ends, draw.integers(ends[-1], size=DRAWN * count), side="right")].astype(np.int64)
        _, first = np.unique(drawn, return_index=True)
        distinct = drawn[np.sort(first)]
        return distinct[~np.isin(distinct, excluded)][:count]


def others_of(pool: np.ndarray, excluded: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
    """Return up to `count` distinct members of `pool` that are not in `excluded`, int64, all equally probable.

    Both are increasing. Time and memory grow with the pool at most, mostly with `count`.
    """
    place = np.searchsorted(pool, excluded)
    held = place < len(pool)
    held[held] = pool[place[held]] == excluded[held]
    gaps = place[held]
    left = len(pool) - len(gaps)
    drawn = draw.choice(left, min(count, left), replace=False) if left else np.empty(0, dtype=np.int64)
    # Member i of what is left has as many gaps before it as there are gaps g with (g - gaps before g) <= i.
    return pool[drawn + np.searchsorted(gaps - np.arange(len(gaps)), drawn, side="right")].astype(np.int64)
