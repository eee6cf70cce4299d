"""Set of the triples known to be true, built for millions of queries: for filtered negatives and filtered ranks.

Two sorted arrays of 64-bit keys answer all queries by binary search. Memory is 16 bytes per triple; the time of a query
grows with the logarithm of the triples.
"""

from __future__ import annotations

import numpy as np


class KnownTriples:
    """A set of triples of entity and relation numbers; repeated triples count once.

    Args:
        heads, relations, tails: integers (T,), entities in [0, num_entities), relations in [0, num_relations).

    Raises:
        ValueError: the arrays differ in length, a number is out of range, or the graph is too large for 64-bit keys
            (num_relations × num_entities² must stay under 2^63).
    """

    def __init__(
        self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, num_entities: int, num_relations: int
    ) -> None:
        if not len(heads) == len(relations) == len(tails):
            raise ValueError(f"{len(heads)} heads, {len(relations)} relations, {len(tails)} tails do not form triples")
        if num_relations * num_entities**2 >= 2**63:
            raise ValueError(f"{num_relations} relations among {num_entities} entities do not fit into 64-bit keys")
        _check_range("head", heads, num_entities)
        _check_range("relation", relations, num_relations)
        _check_range("tail", tails, num_entities)
        self._entities = num_entities
        self._by_head = np.unique(self._keys(relations, heads, tails))
        self._by_tail = np.unique(self._keys(relations, tails, heads))

    def __len__(self) -> int:
        return len(self._by_head)

    def contains(self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Return which of these triples are known: bool, in the arguments' broadcast shape."""
        keys = self._keys(relations, heads, tails)
        places = np.searchsorted(self._by_head, keys)
        return (places < len(self._by_head)) & (
            self._by_head[np.minimum(places, len(self._by_head) - 1)] == keys if len(self) else False
        )

    def tails(self, head: int, relation: int) -> np.ndarray:
        """Return all t for which (head, relation, t) is known: int64, ascending."""
        return self._partners(self._by_head, relation, head)

    def heads(self, relation: int, tail: int) -> np.ndarray:
        """Return all h for which (h, relation, tail) is known: int64, ascending."""
        return self._partners(self._by_tail, relation, tail)

    def _keys(self, relations: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (np.asarray(relations, np.int64) * self._entities + first) * self._entities + second

    def _partners(self, keys: np.ndarray, relation: int, entity: int) -> np.ndarray:
        base = (int(relation) * self._entities + int(entity)) * self._entities
        start, end = np.searchsorted(keys, (base, base + self._entities))
        return keys[start:end] - base


def _check_range(what: str, numbers: np.ndarray, size: int) -> None:
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < size):
        raise ValueError(f"{what} numbers run from {numbers.min()} to {numbers.max()}; they must be in [0, {size})")
