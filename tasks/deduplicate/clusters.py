"""Clusters of near duplicates: from texts that share a band to the one of each cluster that stays.

A candidate pair shares a band. It is verified by the true Jaccard similarity of its shingles, unless its texts are
already known to belong together; clusters are the connected components of what was verified. Within a cluster a text
goes only for one that it truly resembles. None of this depends on the order of the texts.

Time grows with the candidates, memory with the texts that are in any pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from infra.arrays.batching import batches_of
from tasks.deduplicate.shingles import jaccard, shingle

ANCHORS = 8
"""A text is paired with so many first ones of a band's group. All pairs of a large group would be too many, and
most would be joined through an anchor anyhow."""

NEIGHBOURS = 2
"""And with so many just before it."""


MAX_KEPT = 64
"""Texts of one cluster to which the others are compared in turn; what resembles none of them stays, too."""


def pairs_of_groups(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidate pairs within groups: linear in the texts.

    Args:
        groups: (N,) sorted; equal values are one group.

    Returns:
        Two int64 (P,): places in `groups`, the first always the smaller; no pair twice.
    """
    count = len(groups)
    place = np.arange(count)
    begins = np.concatenate([[True], groups[1:] != groups[:-1]]) if count else np.empty(0, dtype=bool)
    starts = np.maximum.accumulate(np.where(begins, place, 0))
    rank = place - starts
    ones, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for anchor in range(ANCHORS):
        chosen = place[rank > anchor]
        ones.append(starts[chosen] + anchor)
        others.append(chosen)
    for back in range(1, NEIGHBOURS + 1):
        chosen = place[rank >= ANCHORS + back]
        ones.append(chosen - back)
        others.append(chosen)
    return np.concatenate(ones), np.concatenate(others)


def components(count: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Connected components of a graph: int64 (count,), each node's smallest fellow.

    Time: a few passes over the edges (logarithmic in the longest chain).
    """
    label = np.arange(count)
    while True:
        low = np.minimum(label[one], label[other])
        before = label.copy()
        np.minimum.at(label, label[one], low)
        np.minimum.at(label, label[other], low)
        while (label != label[label]).any():
            label = label[label]
        if (label == before).all():
            return label


def verified_clusters(
    forms: Sequence[str], one: np.ndarray, other: np.ndarray, threshold: float, size: int
) -> list[tuple[int, int, float]]:
    """What to drop among texts, and for which.

    In a cluster the longest text stays, of equally long ones the first; what is as similar to it as the threshold asks
    goes. A chain of texts may leave some that are not: of those again the longest stays, and so on.

    Args:
        forms: comparable forms in the order of their keys.
        one, other: int (P,), places of candidate pairs.
        threshold: similarity from which two texts belong together.
        size: characters of a shingle.

    Returns:
        (place, place that stays, their similarity), by place; no similarity is under the threshold.
    """
    paired = np.union1d(one, other).tolist()
    shingles = dict(zip(paired, _shingle_sets([forms[place] for place in paired], size), strict=True))
    parents = list(range(len(forms)))
    order = np.lexsort((other, one))  # which pairs are looked at depends on nothing but the texts
    for a, b in zip(one[order].tolist(), other[order].tolist(), strict=True):
        root_a, root_b = _root(parents, a), _root(parents, b)
        if root_a != root_b and jaccard(shingles[a], shingles[b]) >= threshold:
            parents[root_b] = root_a
    clusters: dict[int, list[int]] = {}
    for place in paired:
        clusters.setdefault(_root(parents, place), []).append(place)
    drops: list[tuple[int, int, float]] = []
    for cluster in clusters.values():
        left = sorted(cluster, key=lambda place: (-len(forms[place]), place))
        for _ in range(MAX_KEPT):
            if len(left) < 2:
                break
            kept, *others = left
            shares = [jaccard(shingles[kept], shingles[place]) for place in others]
            drops += [(place, kept, share) for place, share in zip(others, shares, strict=True) if share >= threshold]
            left = [place for place, share in zip(others, shares, strict=True) if share < threshold]
    return sorted(drops)


def _shingle_sets(forms: Sequence[str], size: int) -> Iterable[np.ndarray]:
    """Sorted distinct shingles of each text."""
    for batch in batches_of(forms):
        found = shingle(batch, size)
        for text in range(len(batch)):
            ordered = np.sort(found.of(text))
            yield ordered[np.diff(ordered, prepend=~ordered[:1]) != 0]


def _root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place
