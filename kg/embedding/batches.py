"""The batch of a step: its triples, their order and their negatives.

Batches depend only on the seed and the step, so a resumed run, or one with another number of workers, has the same
batches. Every worker knows the whole batch and therefore which rows of the tables it touches; this lets workers add up
sparse gradients without exchanging indices.

Shape legend: T triples of the graph, B of the batch, K negatives of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from kg.embedding.negatives import BernoulliNegatives


class Draw(IntEnum):
    """Purpose of a random draw; two purposes never share random numbers."""

    ORDER = 1
    NEGATIVES = 2
    HELD_OUT = 3


def generator_for(seed: int, purpose: Draw, number: int = 0) -> np.random.Generator:
    """Return the random generator for one purpose at one step or epoch."""
    return np.random.default_rng([seed, int(purpose), number])


@dataclass(frozen=True)
class Triples:
    """Triples as three int64 arrays of equal length."""

    heads: np.ndarray
    relations: np.ndarray
    tails: np.ndarray

    @classmethod
    def of(cls, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> Triples:
        """Return triples from integers of any width."""
        return cls(*(np.ascontiguousarray(column, np.int64) for column in (heads, relations, tails)))

    def __len__(self) -> int:
        return len(self.heads)

    def take(self, places: np.ndarray | slice) -> Triples:
        """Return the triples at these places, or where a mask is true."""
        return Triples(self.heads[places], self.relations[places], self.tails[places])


@dataclass(frozen=True)
class TrainingBatch:
    """Positives in ascending order of relation, and their negatives."""

    positives: Triples
    """(B,)."""
    entities: np.ndarray
    """int64 (B, K): the entities that replace one end of each positive."""
    of_head: np.ndarray
    """bool (B, K): whether the entity replaces the head; else it replaces the tail."""

    def __len__(self) -> int:
        return len(self.positives)

    def shard(self, rank: int, size: int) -> TrainingBatch:
        """Return share `rank` of `size`: a run in the order of relations, so that each worker needs few matrices."""
        part = slice(len(self) * rank // size, len(self) * (rank + 1) // size)
        return TrainingBatch(self.positives.take(part), self.entities[part], self.of_head[part])

    def negatives(self) -> Triples:
        """Return all (B × K) corrupted triples; those of one positive are adjacent."""
        given = self.positives
        relations = np.repeat(given.relations, self.entities.shape[1])
        heads = np.where(self.of_head, self.entities, given.heads[:, None]).ravel()
        tails = np.where(self.of_head, given.tails[:, None], self.entities).ravel()
        return Triples(heads, relations, tails)


class TrainingBatches:
    """All batches of a run. An epoch is every triple once, in its own order; its last batch may be short.

    Memory: the triples and one epoch's order, 32 bytes per triple.
    """

    def __init__(
        self, triples: Triples, sampler: BernoulliNegatives, *, batch_size: int, negatives: int, seed: int
    ) -> None:
        self._triples, self._sampler = triples, sampler
        self._size, self._negatives, self._seed = batch_size, negatives, seed
        self._order = np.empty(0, np.int64)
        self._epoch = -1
        self.triples = len(triples)
        self.steps_per_epoch = -(-len(triples) // batch_size)

    def at(self, step: int) -> TrainingBatch:
        """Return the batch of step `step`, counted from 0."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = generator_for(self._seed, Draw.ORDER, epoch).permutation(len(self._triples))
            self._epoch = epoch
        places = self._order[number * self._size : (number + 1) * self._size]
        places = places[np.argsort(self._triples.relations[places], kind="stable")]
        positives = self._triples.take(places)
        drawn = self._sampler.sample(
            positives.heads,
            positives.relations,
            positives.tails,
            self._negatives,
            generator_for(self._seed, Draw.NEGATIVES, step),
        )
        return TrainingBatch(positives, drawn.entities, drawn.of_head)
