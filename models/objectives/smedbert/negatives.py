"""Negative entities for masked neighbour modelling, by the linked frequency within a type (appendix B).

Shape legend: E entities, P pairs of a mention and a neighbour, N entities drawn for each.
"""

from __future__ import annotations

import numpy as np

from models.knowledge import KnowledgeArrays


class TypeSampler:
    """Q(e) = t_e / C_e: probability of entity e among the entities of its type.

    t_e is its frequency in the linked corpus, at least `least`; C_e the sum over its type. Entities of unknown type are
    a type of their own. Entities without a vector cannot be scored: they are never drawn, and do not count in C_e.

    Memory: 28 bytes per entity. Each draw is a binary search.
    """

    def __init__(self, knowledge: KnowledgeArrays, least: float) -> None:
        kinds = len(knowledge.type_names) + 1
        self._type = np.where(knowledge.types < 0, kinds - 1, knowledge.types).astype(np.int32)
        able = np.flatnonzero(knowledge.has_vector)
        self._order = able[np.argsort(self._type[able], kind="stable")].astype(np.int32)
        weights = np.maximum(knowledge.frequencies[self._order].astype(np.float64), least)
        self._sums = np.concatenate([[0.0], np.cumsum(weights)])
        self._borders = np.searchsorted(self._type[self._order], np.arange(kinds + 1))
        totals = self._sums[self._borders[1:]] - self._sums[self._borders[:-1]]
        self._log_q = np.full(len(self._type), -np.inf, dtype=np.float32)
        self._log_q[self._order] = np.log(weights / totals[self._type[self._order]])

    def draw(self, entities_P: np.ndarray, uniforms_PN: np.ndarray) -> np.ndarray:
        """Return entities of the same types, int64 (P, N), with replacement; all `entities_P` have a vector."""
        kind = self._type[entities_P][:, np.newaxis]
        first, last = self._borders[kind], self._borders[kind + 1]
        wanted = self._sums[first] + uniforms_PN * (self._sums[last] - self._sums[first])
        found = np.searchsorted(self._sums, wanted, side="right") - 1
        return self._order[np.clip(found, first, last - 1)].astype(np.int64)  # rounding may pass the end of a type

    def log_q(self, entities: np.ndarray) -> np.ndarray:
        """Return log Q of entities, float32 of their shape."""
        return self._log_q[entities]
