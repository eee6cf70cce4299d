"""Clusters of near duplicates: from texts that share a band to the one text of each cluster that stays.

A candidate pair shares a band. It is verified by the true Jaccard similarity of its shingles, unless its texts are
already known to belong together; clusters are the connected components of the verified pairs. Within a cluster a text
is dropped only for one that it truly resembles. None of this depends on the order of the texts.

Time grows with the candidates, memory with the texts that are in any pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from infra.arrays.batching import batches_of
from tasks.deduplicate.shingles import jaccard, shingle

ANCHORS = 8
"""Number of first texts in a band's group with which every text is paired.

All pairs of a large group would be too many, and an anchor would join most of them anyhow.
"""

NEIGHBOURS = 2
"""Number of texts just before it with which every text is paired as well."""

MAX_KEPT = 64
"""Largest number of texts of one cluster that the others are compared with in turn; texts unlike all of them stay."""


def pairs_of_groups(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return candidate pairs within groups, in time linear in the texts.

    Args:
        groups: (N,) sorted; equal values are one group.

    Returns:
        Two int64 arrays (P,) of places in `groups`, the first always the smaller. No pair occurs twice.
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
        chosen = place[rank >= ANCHORS + back]  # nearer to the start the neighbour is an anchor, a pair already
        ones.append(chosen - back)
        others.append(chosen)
    return np.concatenate(ones), np.concatenate(others)


def components(count: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the connected component of each node, named by its smallest node: int64 (count,).

    Time: a few passes over the edges (logarithmic in the longest chain).
    """
    label = np.arange(count)
    while True:
        low = np.minimum(label[one], label[other])
        before = label.copy()
        np.minimum.at(label, label[one], low)
        np.minimum.at(label, label[other], low)
        while (label != label[label]).any():  # shorten chains of labels: 3 → 2 → 1 becomes 3 → 1
            label = label[label]
        if (label == before).all():
            return label


def verified_clusters(
    forms: Sequence[str], one: np.ndarray, other: np.ndarray, threshold: float, size: int
) -> list[tuple[int, int, float]]:
    """Return the texts to drop, and for which text each is dropped.

    In a cluster the longest text stays, of equally long ones the first; texts that are similar enough to it are
    dropped. In a chain of texts some are not: of those again the longest stays, and so on.

    Args:
        forms: comparable forms in the order of their keys.
        one, other: int (P,), places of candidate pairs.
        threshold: similarity from which two texts belong together.
        size: characters per shingle.

    Returns:
        (place, place that stays, their similarity), by place; no similarity is below the threshold.
    """
    paired = np.union1d(one, other).tolist()
    shingles = dict(zip(paired, _shingle_sets([forms[place] for place in paired], size), strict=True))
    parents = list(range(len(forms)))
    # In this order it depends on nothing but the texts which pairs are compared, and which are already joined.
    order = np.lexsort((other, one))
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
    """Yield the sorted distinct shingles of each text."""
    for batch in batches_of(forms):
        found = shingle(batch, size)
        for text in range(len(batch)):
            ordered = np.sort(found.of(text))
            yield ordered[np.diff(ordered, prepend=~ordered[:1]) != 0]  # the complement differs: the first one stays


def _root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]  # halves the path for the next search
        place = parents[place]
    return place
