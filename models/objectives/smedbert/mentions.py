"""Mentions of a batch's rows, and what becomes of each: masked with knowledge, or predicting its neighbours.

Every draw is a function of (seed, step, global row, first token of the mention): a row is treated alike on any worker
and after a resume, and anew each time it is read.

Shape legend: B rows, N mentions, K neighbours of all of them, end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infra.arrays.ranges import ranges
from infra.errors import UserError
from models.batch import field_of
from models.encoder.randomness import Stream, uniforms
from models.infusion.neighbourhood import with_vectors
from models.knowledge import KnowledgeArrays, Neighbours
from models.objectives.smedbert.config import SMedBertConfig


@dataclass(frozen=True)
class RowMentions:
    """Mentions of the rows of one batch; all arrays int64. Places count from the [CLS] of their row."""

    numbers: np.ndarray
    """(B,) global numbers of the rows, which draws are keyed by."""
    lengths: np.ndarray
    """(B,)"""
    rows: np.ndarray
    """(N,) row of each mention, as an index into B."""
    firsts: np.ndarray
    """(N,)"""
    behinds: np.ndarray
    """(N,) token behind the last."""
    entities: np.ndarray
    """(N,) row of the entity in the knowledge arrays."""

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any] | Any], numbers: np.ndarray, knowledge: KnowledgeArrays
    ) -> RowMentions:
        """Lay out the mentions of rows with `input_ids` and `mentions` (first, behind, entity, surface).

        Raises:
            UserError: a mention is outside its row, or names an entity that the knowledge lacks.
        """
        given = [np.asarray(field_of(row, "mentions"), dtype=np.int64).reshape(-1, 4) for row in rows]
        lengths = np.array([len(field_of(row, "input_ids")) for row in rows], dtype=np.int64)
        of_row = np.repeat(np.arange(len(rows)), [len(one) for one in given])
        first, behind, entity, _ = np.concatenate(given).T
        bad = (entity < 0) | (entity >= knowledge.num_entities) | (first < 1) | (behind <= first)
        bad |= behind >= lengths[of_row]
        if bad.any():
            one = int(np.flatnonzero(bad)[0])
            raise UserError(
                f"Row {numbers[of_row[one]]} mentions entity {entity[one]} at tokens {first[one]} to {behind[one]}: it "
                f"has {lengths[of_row[one]]} tokens, and the knowledge {knowledge.num_entities:,} entities, of the "
                f"graph {'/'.join(knowledge.graph)}. Train with the knowledge of the graph that the text was linked to."
            )
        return cls(np.asarray(numbers, dtype=np.int64), lengths, of_row, first, behind, entity)

    def take(self, which: np.ndarray) -> RowMentions:
        """Return some of the mentions, by index or bool (N,)."""
        chosen = (self.rows[which], self.firsts[which], self.behinds[which], self.entities[which])
        return RowMentions(self.numbers, self.lengths, *chosen)

    def __len__(self) -> int:
        return len(self.firsts)

    def uniforms(self, seed: int, step: int, stream: Stream) -> np.ndarray:
        """Return one draw for each mention, float64 (N,)."""
        return uniforms(seed, step, self.numbers[self.rows], stream, self.firsts)

    def tokens(self) -> list[np.ndarray]:
        """Return for each row which tokens are in a mention: bool (length of the row,)."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        inside = np.zeros(offsets[-1], dtype=bool)
        begin = offsets[self.rows]
        inside[ranges(begin + self.firsts, begin + self.behinds)] = True
        return np.split(inside, offsets[1:-1])


@dataclass(frozen=True)
class Uses:
    """Uses of the mentions of a batch."""

    masked: RowMentions
    """They are masked, and get knowledge of their neighbours."""
    predicting: RowMentions
    """They are in the text as they are, and predict their neighbours."""
    found: int
    """Mentions of the text."""
    lonely: int
    """Mentions of entities without a neighbour that has a vector: they are plain text."""


def choose(mentions: RowMentions, knowledge: KnowledgeArrays, config: SMedBertConfig, seed: int, step: int) -> Uses:
    """Draw which mentions are in use and which of these are masked, all independently of each other."""
    near = with_vectors(knowledge, knowledge.best(mentions.entities, config.neighbours))
    has_any = np.diff(near.offsets) > 0
    able = mentions.take(has_any)
    used = able.take(able.uniforms(seed, step, Stream.MENTION_USED) < config.hit_ratio)
    is_masked = used.uniforms(seed, step, Stream.MENTION_MASKED) < config.masked_mentions
    return Uses(used.take(is_masked), used.take(~is_masked), len(mentions), int((~has_any).sum()))


def with_relations(
    knowledge: KnowledgeArrays, near: Neighbours, mentions: RowMentions, choice: str, seed: int, step: int
) -> Neighbours:
    """Return the neighbours with the relation that each is predicted by: the first one, or one that is drawn."""
    if choice == "first":
        return near
    sizes = np.diff(near.offsets)
    owner = np.repeat(np.arange(len(mentions)), sizes)
    rank = np.arange(len(owner)) - near.offsets[owner]
    # Ranks are below 2^16, so that no two neighbours of a row share a counter.
    counter = (mentions.firsts[owner] << 16) + rank
    draws = uniforms(seed, step, mentions.numbers[mentions.rows[owner]], Stream.NEIGHBOUR_RELATION, counter)
    begin = knowledge.triple_offsets[near.places]
    triples = begin + (draws * (knowledge.triple_offsets[near.places + 1] - begin)).astype(np.int64)
    return near._replace(
        relations=knowledge.relations[triples].astype(np.int64),
        directions=knowledge.directions[triples].astype(np.int64),
    )
