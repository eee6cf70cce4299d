"""Rows with entities, all laid end to end, and what happens to them before they are masked.

Entities are replaced by the tokens of other surfaces, and the sentences of a pair exchanged, for a whole batch at once.
Every draw is a function of (seed, step, global row, place in the row): a row is treated alike on any worker and after a
resume, and anew each time it is read, so also in each epoch.

Shape legend: B rows, T tokens laid end to end, W words, N entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from infra.arrays.ranges import ranges
from models.batch import field_of
from models.encoder.randomness import Stream, uniforms
from models.objectives.embert.surfaces import EntitySurfaces
from models.objectives.parts.pair_order import exchanged_place
from models.tokenizer.special_ids import SEP

NOT_REPLACED, WRONG, SAME = -1, 0, 1
"""Labels of an entity: as in the text; replaced by another entity of its type; replaced by a synonym."""


@dataclass(frozen=True)
class EntityRows:
    """Rows of one batch; all arrays int64. Places count from the [CLS] of their row."""

    numbers: np.ndarray
    """(B,) global numbers of the rows, which draws are keyed by."""
    ids: np.ndarray
    """(T,)"""
    lengths: np.ndarray
    """(B,)"""
    seconds: np.ndarray
    """(B,) place at which the second sentence begins."""
    words: np.ndarray
    """(W, 2) row, and place at which a word begins; in order."""
    entities: np.ndarray
    """(N, 4) row, first token, token behind the last, surface."""
    labels: np.ndarray
    """(N,) NOT_REPLACED, WRONG or SAME."""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any] | Any], numbers: np.ndarray, surfaces: EntitySurfaces) -> Self:
        """Lay out rows with `input_ids`, `word_starts`, `second` and `entities` (first, behind, surface).

        Raises:
            ValueError: an entity is outside its row, overlaps another, or is not the tokens of its surface.
        """
        ids = [np.asarray(field_of(row, "input_ids"), dtype=np.int64) for row in rows]
        starts = [np.asarray(field_of(row, "word_starts"), dtype=np.int64) for row in rows]
        found = [np.asarray(field_of(row, "entities"), dtype=np.int64).reshape(-1, 3) for row in rows]
        laid = cls(
            numbers=np.asarray(numbers, dtype=np.int64),
            ids=np.concatenate(ids),
            lengths=np.array([len(one) for one in ids]),
            seconds=np.array([int(field_of(row, "second")) for row in rows]),
            words=np.stack([_row_of(starts), np.concatenate(starts)], 1),
            entities=np.concatenate([_row_of(found)[:, np.newaxis], np.concatenate(found)], 1),
            labels=np.full(sum(map(len, found)), NOT_REPLACED),
        )
        laid._check(surfaces)
        return laid

    @cached_property
    def offsets(self) -> np.ndarray:
        """(B + 1,) first token of each row, and T."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def firsts(self) -> np.ndarray:
        """(N,) first token of each entity, as an index into T."""
        return self.offsets[self.entities[:, 0]] + self.entities[:, 1]

    @property
    def behinds(self) -> np.ndarray:
        """(N,) token behind the last of each entity, as an index into T."""
        return self.offsets[self.entities[:, 0]] + self.entities[:, 2]

    def uniforms(self, which: np.ndarray, seed: int, step: int, stream: Stream) -> np.ndarray:
        """Return one draw for each entity in `which` (indices or bool), keyed by its row and first token."""
        row, first = self.entities[which, 0], self.entities[which, 1]
        return uniforms(seed, step, self.numbers[row], stream, first)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the rows one by one, without their entities, as `collate_masked` reads them."""
        ids = np.split(self.ids, self.offsets[1:-1])
        starts = np.split(self.words[:, 1], np.searchsorted(self.words[:, 0], np.arange(1, len(ids))))
        columns = zip(ids, starts, self.seconds.tolist(), strict=True)
        return [{"input_ids": one, "word_starts": words, "second": second} for one, words, second in columns]

    def _check(self, surfaces: EntitySurfaces) -> None:
        row, first, behind, surface = self.entities.T
        known = (surface >= 0) & (surface < len(surfaces))
        bad = ~known | (first < 1) | (behind <= first) | (behind >= self.lengths[row])
        bad |= behind - first != surfaces.lengths[np.where(known, surface, 0)]
        order = np.lexsort((first, row))
        follows = (np.diff(row[order]) == 0) & (first[order][1:] < behind[order][:-1])
        bad[order[1:][follows]] = True
        if bad.any():
            number = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"row {self.numbers[row[number]]}: entity {surface[number]} at tokens {first[number]} to "
                f"{behind[number]} is outside the row, overlaps another, or has another length than its surface; train "
                "with the entity_surfaces that the examples were made with"
            )


def replaced(
    rows: EntityRows,
    surfaces: EntitySurfaces,
    *,
    seed: int,
    step: int,
    probability: float,
    longest: int,
    as_frequent: bool = False,
) -> EntityRows:
    """Replace each entity that has a synonym with `probability`: half by a synonym, half by another of its type.

    What results is what the tokeniser would make of the text with the other name in it, because an entity is only
    replaced where neither neighbour may merge with it. A row stays within `longest` tokens: its last replacements are
    left out if they would exceed it. With `as_frequent` another is drawn by its frequency.
    """
    surface = rows.entities[:, 3]
    apart = ~surfaces.joins[rows.ids[rows.firsts - 1]] & ~surfaces.joins[rows.ids[rows.behinds]]
    able = np.flatnonzero(apart & (surfaces.group[surface] >= 0))
    chosen = able[rows.uniforms(able, seed, step, Stream.ENTITY_REPLACED) < probability]
    # Of two names that touch only the first is replaced: 肺炎b and hbv肺炎 side by side would make one word, bhbv.
    chosen = chosen[~np.isin(rows.firsts[chosen], rows.behinds[chosen])]
    labels = np.where(rows.uniforms(chosen, seed, step, Stream.ENTITY_LABEL) < 0.5, SAME, WRONG)
    draws = rows.uniforms(chosen, seed, step, Stream.ENTITY_SURFACE)
    old = surface[chosen]
    other = surfaces.other_as_frequent if as_frequent else surfaces.other
    new = np.where(labels == SAME, surfaces.synonym(old, draws), other(old, draws))
    fits = _fitting(rows, chosen, surfaces.lengths[new] - surfaces.lengths[old], longest)
    return _spliced(rows, chosen[fits], new[fits], labels[fits], surfaces)


def exchanged(rows: EntityRows, which: np.ndarray) -> EntityRows:
    """Return the rows with their sentences in the other order where `which` (B,) is true: [CLS] B [SEP] A [SEP]."""

    def moved(row: np.ndarray, place: np.ndarray) -> np.ndarray:
        return np.where(which[row], exchanged_place(place, rows.seconds[row], rows.lengths[row]), place)

    row_T = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    ids = np.empty_like(rows.ids)
    ids[rows.offsets[row_T] + moved(row_T, np.arange(len(row_T)) - rows.offsets[row_T])] = rows.ids
    words = np.stack([rows.words[:, 0], moved(*rows.words.T)], 1)
    entities = rows.entities.copy()
    row = entities[:, 0]
    entities[:, 1] = moved(row, entities[:, 1])
    entities[:, 2] = moved(row, rows.entities[:, 2] - 1) + 1
    return replace(
        rows,
        ids=ids,
        seconds=np.where(which, rows.lengths - rows.seconds + 1, rows.seconds),
        words=words[np.lexsort((words[:, 1], words[:, 0]))],
        entities=entities,
    )


def _fitting(rows: EntityRows, chosen: np.ndarray, growth: np.ndarray, longest: int) -> np.ndarray:
    """bool: replacements after which no row is too long. Only growth counts, so a row may keep some room."""
    row = rows.entities[chosen, 0]
    order = np.lexsort((rows.entities[chosen, 1], row))
    grown = np.cumsum(np.maximum(growth[order], 0))
    first = np.searchsorted(row[order], row[order])
    within = grown - np.concatenate([[0], grown])[first] <= longest - rows.lengths[row[order]]
    fits = np.empty(len(chosen), dtype=bool)
    fits[order] = within | (growth[order] <= 0)
    return fits


def _spliced(
    rows: EntityRows, chosen: np.ndarray, new: np.ndarray, labels: np.ndarray, surfaces: EntitySurfaces
) -> EntityRows:
    """Write the tokens of the surfaces `new` over the entities `chosen`, and move all that is behind them."""
    firsts, behinds = rows.firsts[chosen], rows.behinds[chosen]
    lengths = surfaces.lengths[new]
    growth = np.zeros(len(rows.ids) + 1, dtype=np.int64)
    growth[behinds] = lengths - (behinds - firsts)
    # Index of each token in the new rows: 患 [高 血 压] 者 with 4 tokens for 3 moves 者 and all behind it by one.
    moved = np.arange(len(growth)) + np.cumsum(growth)
    kept = np.ones(len(rows.ids), dtype=bool)
    kept[ranges(firsts, behinds)] = False
    ids = np.empty(moved[-1], dtype=np.int64)
    ids[moved[:-1][kept]] = rows.ids[kept]
    begins = surfaces.borders[new]
    ids[ranges(moved[firsts], moved[firsts] + lengths)] = surfaces.ids[ranges(begins, begins + lengths)]
    offsets = moved[rows.offsets]
    starts = rows.offsets[rows.words[:, 0]] + rows.words[:, 1]
    # The new name is a word, and so is what follows it, but for a [SEP].
    starts = np.unique(np.concatenate([starts[kept[starts]], firsts, behinds[rows.ids[behinds] != SEP]]))
    word_row = np.searchsorted(rows.offsets, starts, side="right") - 1
    entities, all_labels = rows.entities.copy(), rows.labels.copy()
    entities[:, 1] = moved[rows.firsts] - offsets[entities[:, 0]]
    entities[:, 2] = moved[rows.behinds] - offsets[entities[:, 0]]
    entities[chosen, 3], all_labels[chosen] = new, labels
    return EntityRows(
        numbers=rows.numbers,
        ids=ids,
        lengths=np.diff(offsets),
        seconds=moved[rows.offsets[:-1] + rows.seconds] - offsets[:-1],
        words=np.stack([word_row, moved[starts] - offsets[word_row]], 1),
        entities=entities,
        labels=all_labels,
    )


def _row_of(lists: Sequence[np.ndarray]) -> np.ndarray:
    return np.repeat(np.arange(len(lists)), [len(one) for one in lists])
