"""Corrupted triples to train against (Bernoulli sampling: Wang et al. 2014, "Knowledge Graph Embedding by Translating
on Hyperplanes", section 3.2).

In a relation with many tails per head (a drug and its side effects) a random tail is often true by chance, a random
head seldom. So the head is replaced with probability tph / (tph + hpt), where tph is the mean number of tails per head
and hpt the mean number of heads per tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infra.errors import UserError
from kg.embedding.known import KnownTriples

REDRAWS = 8
"""Redraws before the remaining true triples are replaced from a list of all false ones; in real graphs, few remain."""


@dataclass(frozen=True)
class Corruption:
    """For each of B triples, K entities that each replace one end of it."""

    entities: np.ndarray
    """int64 (B, K): the new entity; never the one that it replaces."""
    of_head: np.ndarray
    """bool (B, K): whether it replaces the head; else it replaces the tail."""


def head_probabilities(heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, num_relations: int) -> np.ndarray:
    """Return the probability that the head of a triple is replaced, by relation: float64 (R,).

    Triples must be distinct. The probability is 0.5 for a relation without triples. Time grows with T log T.
    """
    triples = np.bincount(relations, minlength=num_relations)
    tails_a_head = triples / np.maximum(1, _distinct(relations, heads, num_relations))
    heads_a_tail = triples / np.maximum(1, _distinct(relations, tails, num_relations))
    total = tails_a_head + heads_a_tail
    return np.where(total > 0, tails_a_head / np.where(total > 0, total, 1), 0.5)


def _distinct(relations: np.ndarray, entities: np.ndarray, num_relations: int) -> np.ndarray:
    """Return the number of distinct entities of each relation."""
    size = int(entities.max(initial=0)) + 1
    return np.bincount(np.unique(relations.astype(np.int64) * size + entities) // size, minlength=num_relations)


class BernoulliNegatives:
    """Draws negatives for triples of a graph.

    Args:
        heads, relations, tails: the graph's triples, integers (T,).
        filtered: whether triples of the graph are excluded. Otherwise a few negatives are true (as in the paper). Costs
            one look-up per negative, and 16 bytes per triple.

    Raises:
        ValueError: there are fewer than two entities, or the triples are invalid (see `KnownTriples`).
    """

    def __init__(
        self,
        heads: np.ndarray,
        relations: np.ndarray,
        tails: np.ndarray,
        num_entities: int,
        num_relations: int,
        *,
        filtered: bool = False,
    ) -> None:
        if num_entities < 2:
            raise ValueError(f"a graph of {num_entities} entities has no corrupted triples")
        self.head_probability = head_probabilities(heads, relations, tails, num_relations)
        self._entities = num_entities
        self._known = KnownTriples(heads, relations, tails, num_entities, num_relations) if filtered else None

    def sample(
        self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, count: int, generator: np.random.Generator
    ) -> Corruption:
        """Return `count` (K) negatives of each of B triples; they depend only on arguments and generator state.

        Raises:
            UserError: negatives are filtered, and for some triple every replacement of either end is true.
        """
        shape = (len(heads), count)
        of_head = generator.random(shape) < self.head_probability[relations][:, None]
        replaced = np.where(of_head, heads[:, None], tails[:, None])
        entities = _other_than(replaced, self._entities, generator)
        if self._known is not None:
            self._redraw(heads, relations, tails, of_head, entities, self._known, generator)
        return Corruption(entities, of_head)

    def _redraw(
        self,
        heads: np.ndarray,
        relations: np.ndarray,
        tails: np.ndarray,
        of_head: np.ndarray,
        entities: np.ndarray,
        known: KnownTriples,
        generator: np.random.Generator,
    ) -> None:
        """Replace true triples, in place."""
        rows, columns = np.indices(of_head.shape).reshape(2, -1)
        for draw in range(REDRAWS + 1):
            drawn, head_side = entities[rows, columns], of_head[rows, columns]
            given_heads = np.where(head_side, drawn, heads[rows])
            given_tails = np.where(head_side, tails[rows], drawn)
            true = known.contains(given_heads, relations[rows], given_tails)
            rows, columns = rows[true], columns[true]
            if not len(rows) or draw == REDRAWS:
                break
            replaced = np.where(of_head[rows, columns], heads[rows], tails[rows])
            entities[rows, columns] = _other_than(replaced, self._entities, generator)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            triple = int(heads[row]), int(relations[row]), int(tails[row])
            entities[row, column], of_head[row, column] = self._listed(
                triple, bool(of_head[row, column]), known, generator
            )

    def _listed(
        self, triple: tuple[int, int, int], head_first: bool, known: KnownTriples, generator: np.random.Generator
    ) -> tuple[int, bool]:
        """Draw from the list of all false replacements, of the end that was chosen, else of the other end."""
        head, relation, tail = triple
        for of_head in (head_first, not head_first):
            true = known.heads(relation, tail) if of_head else known.tails(head, relation)
            false = np.setdiff1d(np.arange(self._entities), [*true, head if of_head else tail])
            if len(false):
                return int(false[generator.integers(len(false))]), of_head
        raise UserError(
            f"The triple {triple} (head, relation, tail by number) has no filtered negatives: every replacement of "
            "either end is true. Remove its relation from the graph, or set filtered_negatives = false."
        )


def _other_than(replaced: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw uniformly from [0, size) without the replaced number."""
    # From one number fewer, and then everything from the replaced number on moves up by one.
    drawn = generator.integers(0, size - 1, replaced.shape)
    return drawn + (drawn >= replaced)
