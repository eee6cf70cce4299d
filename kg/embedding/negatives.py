"""Corrupted triples to train against (Bernoulli sampling: Wang et al. 2014, "Knowledge Graph Embedding by Translating
on Hyperplanes", section 3.2).

In a relation with many tails a head (a drug and its side effects) a random tail is often true by chance, a random head
seldom: so the head is replaced with probability tph / (tph + hpt), where tph is the mean number of tails a head and
hpt the mean number of heads a tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infra.errors import UserError
from kg.embedding.known import KnownTriples

REDRAWS = 8
"""Draws before the true triples that are left are replaced from a list of what is false: few, in real graphs none."""


@dataclass(frozen=True)
class Corruption:
    """For each of B triples, K entities that replace one end of it."""

    entities: np.ndarray
    """int64 (B, K): the entity that is put in; never the one it replaces."""
    of_head: np.ndarray
    """bool (B, K): it replaces the head; else the tail."""


def head_probabilities(heads: np.ndarray, relations: np.ndarray, tails: np.ndarray, num_relations: int) -> np.ndarray:
    """float64 (R,): with what probability the head of a triple of each relation is replaced.

    Triples are distinct. 0.5 for a relation without triples. Time grows with T log T.
    """
    triples = np.bincount(relations, minlength=num_relations)
    tails_a_head = triples / np.maximum(1, _distinct(relations, heads, num_relations))
    heads_a_tail = triples / np.maximum(1, _distinct(relations, tails, num_relations))
    total = tails_a_head + heads_a_tail
    return np.where(total > 0, tails_a_head / np.where(total > 0, total, 1), 0.5)


def _distinct(relations: np.ndarray, entities: np.ndarray, num_relations: int) -> np.ndarray:
    """Distinct entities of each relation."""
    size = int(entities.max(initial=0)) + 1
    return np.bincount(np.unique(relations.astype(np.int64) * size + entities) // size, minlength=num_relations)


class BernoulliNegatives:
    """Draws negatives for triples of a graph.

    Args:
        heads, relations, tails: the graph's triples, integers (T,).
        filtered: no negative is a triple of the graph. Without it a few are (as in the paper); it costs a look-up a
            negative, and 16 bytes a triple.

    Raises:
        ValueError: fewer than two entities, or triples that are none (see `KnownTriples`).
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
        """`count` (K) negatives of each of B triples, a function of the arguments and the generator's state.

        Raises:
            UserError: `filtered`, and a triple for which every replacement of either end is true.
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
        """Replace, in place, what is true."""
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
        """A replacement from the list of all false ones: of the end that was chosen, else of the other."""
        head, relation, tail = triple
        for of_head in (head_first, not head_first):
            true = known.heads(relation, tail) if of_head else known.tails(head, relation)
            false = np.setdiff1d(np.arange(self._entities), [*true, head if of_head else tail])
            if len(false):
                return int(false[generator.integers(len(false))]), of_head
        raise UserError(
            f"Every replacement of either end of the triple {triple} (head, relation, tail by number) is true, so "
            "it has no filtered negatives. Leave its relation out of the graph, or set filtered_negatives = false."
        )


def _other_than(replaced: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """Uniform over [0, size) without the replaced number itself."""
    drawn = generator.integers(0, size - 1, replaced.shape)
    return drawn + (drawn >= replaced)
