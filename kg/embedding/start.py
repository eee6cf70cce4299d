"""The vectors that an embedding begins with: random directions, short for entities.

Two entities at length 1 in random directions lie a squared distance of about 2 apart, beyond a margin of 1 before
anything is learned; and since 1 is also the longest they may become, a step can only turn them away, slowly, from
where chance put them. Short ones lie within the margin of each other, so that every pair has something to learn from,
a step turns them further, and they grow to length 1 in the directions that the triples ask for.

Relations begin at length 1 (Bordes et al. 2013, Algorithm 1, line 2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from kg.embedding.limits import unit_rows

ENTITY_LENGTH = 0.3


def first_entities(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """(count, dim) float32 of length `ENTITY_LENGTH`, each direction as likely as any other."""
    return first_relations(count, dim, generator) * ENTITY_LENGTH


def first_relations(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """(count, dim) float32 of length 1, each direction as likely as any other."""
    return unit_rows(torch.randn(count, dim, generator=generator))
