"""Small graphs with a rule that an embedding can learn, and plain formulas to hold the fast ones against."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from kg.embedding.batches import TrainingBatch, Triples
from kg.embedding.split import SplitGraph, hold_out
from kg.transr import TransR

ENTITIES, RELATIONS = 40, 3


def grouped_graph(held_out: int = 12) -> SplitGraph:
    """31 members of 3 groups; relation k leads from a member to its group's k-th mark. What a member's other marks are
    tells its group, and so the mark that was held out.
    """
    members, relations = np.indices((31, RELATIONS)).reshape(2, -1)
    triples = Triples.of(members, relations, 31 + members % 3 * RELATIONS + relations)
    held = hold_out(triples, held_out, seed=0)
    return SplitGraph(triples.take(~held), triples.take(held), ENTITIES, RELATIONS)


def random_batch(seed: int, size: int, entities: int, relations: int, negatives: int) -> TrainingBatch:
    """Any triples, in ascending order of relation, with any corruptions."""
    generator = np.random.default_rng(seed)
    positives = Triples(
        generator.integers(0, entities, size),
        np.sort(generator.integers(0, relations, size)),
        generator.integers(0, entities, size),
    )
    shape = (size, negatives)
    return TrainingBatch(positives, generator.integers(0, entities, shape), generator.random(shape) < 0.5)


def randomised(model: nn.Module, seed: int, length: float = 0.25) -> nn.Module:
    """The model in float64 with random weights, some vectors longer than 1 and some shorter."""
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randn(table.shape, generator=generator, dtype=torch.float64) * length)
    return model


def plain_distance(model: nn.Module, head: int, relation: int, tail: int) -> Tensor:
    """The paper's formula for one triple."""
    r = model.relations[relation]
    if not isinstance(model, TransR):
        return (model.entities[head] + r - model.entities[tail]).norm()
    matrix = model.projections[relation]
    h, t = (model.entities[entity] @ matrix for entity in (head, tail))
    h, t = (vector if vector.norm() <= 1 else vector / vector.norm() for vector in (h, t))
    return (h + r - t).norm()


def plain_loss(model: nn.Module, batch: TrainingBatch, margin: float, squared: bool) -> Tensor:
    """The sum over all pairs, one at a time, for autograd."""
    power = 2 if squared else 1
    total = torch.zeros((), dtype=torch.float64)
    given = batch.positives
    for h, r, t, entities, sides in zip(
        given.heads, given.relations, given.tails, batch.entities, batch.of_head, strict=True
    ):
        positive = plain_distance(model, h, r, t) ** power
        for entity, of_head in zip(entities, sides, strict=True):
            ends = (entity, t) if of_head else (h, entity)
            negative = plain_distance(model, ends[0], r, ends[1]) ** power
            total = total + torch.relu(margin + positive - negative)
    return total
