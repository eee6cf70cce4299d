"""Ranking of values: candidates for a title and an attribute, ranks of the right ones, and what guessing would score.

Each right value is ranked among the wrong candidates alone; other right values do not count against it. Of equal
scores half are ahead.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

Kind = Literal["values", "records"]
"""How wrong candidates are drawn: each value of the attribute with equal probability, or in proportion to the titles
that have it. Among the latter, knowing which values are frequent helps nothing.
"""
KINDS: tuple[Kind, ...] = ("values", "records")
HITS = (1, 10)


@dataclass(frozen=True)
class KnownValues:
    """Distinct values of an attribute, sorted, with the number of titles that have each."""

    values: list[str]
    counts: np.ndarray

    def wrong(self, right: Iterable[str], number: int, kind: Kind, key: str) -> list[str]:
        """Return up to `number` distinct values that are not right; the draw is a function of `key`."""
        draw = np.random.default_rng(int.from_bytes(hashlib.blake2b(f"{kind}\0{key}".encode(), digest_size=8).digest()))
        weights = np.ones(len(self.values)) if kind == "values" else self.counts.astype(float)
        weights[[self._places[value] for value in right if value in self._places]] = 0.0
        left = int((weights > 0).sum())
        if not left:
            return []
        chosen = draw.choice(len(self.values), min(number, left), replace=False, p=weights / weights.sum())
        return [self.values[place] for place in chosen]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}


def known_values(records: pl.DataFrame) -> dict[str, KnownValues]:
    """Return the values of each attribute of records (title, attribute, values)."""
    counts = records.explode("values").group_by("attribute", "values").len().sort("attribute", "values")
    return {
        str(name): KnownValues(found["values"].to_list(), found["len"].to_numpy())
        for (name,), found in counts.group_by("attribute", maintain_order=True)
    }


def ranks(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the rank, from 1, of each right distance among the wrong ones; the nearest is the first. float64 (N,)."""
    ordered = np.sort(wrong)
    nearer = np.searchsorted(ordered, right, side="left")
    as_near = np.searchsorted(ordered, right, side="right") - nearer
    return 1.0 + nearer + as_near / 2.0


def scores(found: Sequence[float] | np.ndarray, candidates: Sequence[int] | np.ndarray) -> dict[str, float]:
    """Return mean reciprocal rank and hits, and for each what guessing would score (`…_chance`).

    Args:
        found: the rank of each right value.
        candidates: the number of candidates that it was ranked among, itself included.
    """
    rank, sizes = np.asarray(found, dtype=float), np.asarray(candidates)
    if not len(rank):
        return {}
    harmonic = np.cumsum(1.0 / np.arange(1, sizes.max() + 1))
    result = {"mrr": float((1.0 / rank).mean()), "mrr_chance": float((harmonic[sizes - 1] / sizes).mean())}
    for top in HITS:
        result[f"hits@{top}"] = float((rank <= top).mean())
        result[f"hits@{top}_chance"] = float(np.minimum(1.0, top / sizes).mean())
    return result


def frequency(values: Sequence[str], counted: Mapping[str, int]) -> np.ndarray:
    """Return minus the number of titles that have each value in training: a distance by which the frequent are near."""
    return np.array([-counted.get(value, 0) for value in values], dtype=float)
