"""Initial vectors of an embedding: random directions, short for entities.

Two entities of length 1 in random directions have a squared distance of about 2, beyond a margin of 1 before anything
is learned. Since 1 is also their maximum length, a step can only turn them, slowly, away from where chance put them.
Short vectors are within the margin of each other: every pair has something to learn from, a step turns them further,
and they grow to length 1 in the directions that the triples require.

Relations start at length 1 (Bordes et al. 2013, Algorithm 1, line 2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from kg.embedding.limits import unit_rows

ENTITY_LENGTH = 0.3


def first_entities(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Return vectors of length `ENTITY_LENGTH` in uniformly random directions: float32 (count, dim)."""
    return first_relations(count, dim, generator) * ENTITY_LENGTH


def first_relations(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Return vectors of length 1 in uniformly random directions: float32 (count, dim)."""
    return unit_rows(torch.randn(count, dim, generator=generator))
