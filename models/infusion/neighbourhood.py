"""Neighbours of a batch's mentions as tensors: K places per mention, filled from the first on.

Shape legend: M mentions, K neighbours of a mention at most, U distinct neighbours, C width of an entity's vector (d2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.knowledge import KnowledgeArrays, Neighbours

NO_TYPE = -1
"""Type of a neighbour whose type is unknown: neighbours without a type form a type of their own."""


@dataclass(frozen=True)
class Neighbourhood:
    """Vectors and types of the neighbours of M mentions."""

    vectors: Tensor
    """float32 (U, C): the distinct neighbours, each once."""
    places: Tensor
    """int64 (M, K): rows of `vectors`; 0 at places without a neighbour."""
    types: Tensor
    """int64 (M, K)"""
    known: Tensor
    """bool (M, K): whether there is a neighbour at this place."""

    @classmethod
    def of(cls, knowledge: KnowledgeArrays, entities: np.ndarray, k: int) -> Neighbourhood:
        """Look up the best `k` neighbours of the entities that the mentions name, integers (M,).

        Neighbours without a vector are left out. There are fewer than `k` places if no entity has so many neighbours.
        """
        entities = np.asarray(entities, dtype=np.int64)
        found = with_vectors(knowledge, knowledge.best(entities, k))
        sizes = np.diff(found.offsets)
        known = np.arange(max(1, sizes.max(initial=0))) < sizes[:, np.newaxis]
        places = np.zeros(known.shape, dtype=np.int64)
        types = np.full(known.shape, NO_TYPE, dtype=np.int64)
        distinct, inverse = np.unique(found.entities, return_inverse=True)
        places[known], types[known] = inverse, knowledge.types[found.entities]
        vectors = np.ascontiguousarray(knowledge.entity_vectors[distinct], dtype=np.float32)
        if not len(vectors):  # place 0 must exist
            vectors = np.zeros((1, vectors.shape[1]), dtype=np.float32)
        return cls(*(torch.from_numpy(array) for array in (vectors, places, types, known)))


def with_vectors(knowledge: KnowledgeArrays, found: Neighbours) -> Neighbours:
    """Return the neighbours that have a vector."""
    kept = knowledge.has_vector[found.entities]
    offsets = np.concatenate([[0], np.cumsum(kept)])[found.offsets]
    return Neighbours(offsets, *(column[kept] for column in found[1:]))
