"""Similarity of the attention around an entity and around what takes its place (EMBERT, section 4.5, Figure 2).

The caption of Figure 2 speaks of the attention of each token *to* the entity, section 4.5 of that *from* the entity to
the other tokens. Both are computed: the attention that the tokens of the context pay to the entity, summed over the
entity's tokens (received), and what the entity's tokens pay to each token of the context (given). [CLS] and [SEP] are
no context. The similarity of two such vectors is their cosine, which does not depend on their sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tasks.metrics.scores import Metric
from tasks.metrics.significance import bootstrap_interval, compare

DIRECTIONS = ("received", "given")

_MEAN = Metric(tally=lambda sums, counts: np.stack([sums, counts], 1), value=lambda sums: sums[..., 0] / sums[..., 1])
"""Mean over sentences; the unit of a test is a group of synonyms, with the sum and the number of its sentences."""


class Sums(NamedTuple):
    """Attention between the tokens of an entity and those of its context, by token of the context: float64 (C,)."""

    received: np.ndarray
    given: np.ndarray


def sums_of(map_LL: np.ndarray, first: int, behind: int) -> Sums:
    """Return the sums of a map whose rows are the tokens that attend, for an entity at [first, behind).

    The map includes [CLS] and [SEP] as its first and last token.
    """
    context = np.r_[1:first, behind : len(map_LL) - 1]
    received = map_LL[context, first:behind].sum(1, dtype=np.float64)
    return Sums(received, map_LL[first:behind, context].sum(0, dtype=np.float64))


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Return the cosine of two vectors; 0 if one of them is zero."""
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norms if norms else 0.0


def within(map_LL: np.ndarray, first: int, behind: int) -> tuple[float, float]:
    """Return the share of an entity's attention that stays inside it, and its share of all tokens."""
    inside = float(map_LL[first:behind, first:behind].sum(1, dtype=np.float64).mean())
    return inside, (behind - first) / len(map_LL)


def figures(rows: Sequence[Mapping[str, Any]], direction: str, rounds: int, seed: int) -> dict[str, float]:
    """Return the mean similarities of a direction, and how they compare with chance.

    `difference` is that of the means, synonym less random entity, with a 95 % interval (`low`, `high`) that resamples
    groups of synonyms. `p_value` is that of a paired permutation test: by chance the two would change places in a group
    as often as not. `nearer` is the share of sentences in which the synonym is more similar, of equal ones half, with
    its interval; by chance it is 0.5.
    """
    own = np.array([row[f"{direction}_synonym"] for row in rows])
    other = np.array([row[f"{direction}_random"] for row in rows])
    _, group = np.unique([row["group_id"] for row in rows], return_inverse=True)
    counts = np.bincount(group).astype(np.float64)

    def by_group(values: np.ndarray) -> np.ndarray:
        return _MEAN.tally(np.bincount(group, weights=values), counts)

    compared = compare(_MEAN, by_group(own), by_group(other), rounds=rounds, seed=seed)
    nearer = bootstrap_interval(_MEAN, by_group((np.sign(own - other) + 1) / 2), rounds=rounds, seed=seed)
    return {
        "sentences": len(rows),
        "groups": len(counts),
        "synonym": float(own.mean()),
        "random": float(other.mean()),
        "difference": compared.difference,
        "low": compared.low,
        "high": compared.high,
        "p_value": compared.p_value,
        "nearer": nearer.score,
        "nearer_low": nearer.low,
        "nearer_high": nearer.high,
    }
