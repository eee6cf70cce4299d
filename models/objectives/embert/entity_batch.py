"""Batch of EMBERT: a masked batch, and where in it the three heads read and what they should find.

Shape legend: S sequences, T tokens laid end to end, N entities or tokens that a head judges, B rows, E entities in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from infra.arrays.ranges import ranges
from models.batch import MaskedBatch
from models.encoder.randomness import Stream
from models.objectives.embert.entity_rows import NOT_REPLACED, EntityRows
from models.objectives.embert.surfaces import EntitySurfaces
from models.tokenizer.special_ids import MASK

Targets = Mapping[str, Tensor]
"""Tensors (N,) by name; `unseen` (bool) marks entities that no training example names."""


@dataclass(frozen=True)
class EntityBatch(MaskedBatch):
    """A masked batch with what the heads read; places are indices into T, int64."""

    consistency: Targets = field(default_factory=dict)
    """`before` and `after`, the tokens beside each replaced entity; `labels`, 1 for a synonym."""
    segmentation: Targets = field(default_factory=dict)
    """`tokens` of long entities; `labels`, 1 for the last token of a sub-entity."""
    atomic: Targets = field(default_factory=dict)
    """`tokens` of masked atomic terms, their `original` ids, `offsets` in the term, and the `first` and `last` token of
    the adjective term beside it.
    """
    adjective: Targets = field(default_factory=dict)
    """The same for masked adjective terms, with the atomic term's `first` and `last` token."""


class MaskedTerms(NamedTuple):
    """Entities of which one term is masked."""

    entities: np.ndarray
    """int64 (N,) indices into E."""
    is_atomic: np.ndarray
    """bool (N,) whether it is the atomic term."""


def choose_terms(
    rows: EntityRows, surfaces: EntitySurfaces, *, seed: int, step: int, probability: float
) -> MaskedTerms:
    """Choose each long entity of the text with `probability`, and one of its two terms, both equally likely.

    One direction at a time: states of a masked term would say nothing about the other. Replaced entities are left out.
    """
    able = np.flatnonzero((surfaces.adjective[rows.entities[:, 3]] > 0) & (rows.labels == NOT_REPLACED))
    chosen = able[rows.uniforms(able, seed, step, Stream.TERM_MASKED) < probability]
    return MaskedTerms(chosen, rows.uniforms(chosen, seed, step, Stream.TERM_SIDE) < 0.5)


def no_terms() -> MaskedTerms:
    """Return no entities."""
    return MaskedTerms(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))


def spared_tokens(rows: EntityRows, terms: MaskedTerms) -> list[np.ndarray]:
    """Return for each row which tokens masked language modelling must leave: bool (length of the row,).

    These are replaced entities, which are judged as they are, and entities with a masked term, of which the other must
    be seen.
    """
    spared = np.zeros(len(rows.ids), dtype=bool)
    which = np.union1d(np.flatnonzero(rows.labels != NOT_REPLACED), terms.entities)
    spared[ranges(rows.firsts[which], rows.behinds[which])] = True
    return np.split(spared, rows.offsets[1:-1])


def entity_batch(batch: MaskedBatch, rows: EntityRows, surfaces: EntitySurfaces, terms: MaskedTerms) -> EntityBatch:
    """Return the masked batch of these rows with the terms masked and what the heads read.

    A masked term is [MASK] throughout.
    """
    begins = _begins(batch, rows)[rows.entities[:, 0]]
    first, behind, surface = begins + rows.entities[:, 1], begins + rows.entities[:, 2], rows.entities[:, 3]
    judged = np.flatnonzero(rows.labels != NOT_REPLACED)
    consistency = {
        "before": first[judged] - 1,
        "after": behind[judged],
        "labels": rows.labels[judged],
        "unseen": surfaces.unseen[surface[judged]],
    }
    long = np.flatnonzero(surfaces.pieces[surface] > 1)
    of_surface = surfaces.borders[surface[long]]
    lengths = behind[long] - first[long]
    segmentation = {
        "tokens": ranges(first[long], behind[long]),
        "labels": surfaces.is_end[ranges(of_surface, of_surface + lengths)].astype(np.int64),
        "unseen": np.repeat(surfaces.unseen[surface[long]], lengths),
    }
    ids = batch.input_ids.numpy().copy()
    # Both directions read their targets before either masks its own.
    atomic, adjective = (
        _term(terms.entities[terms.is_atomic == side], side, ids, first, behind, surface, surfaces)
        for side in (True, False)
    )
    ids[atomic["tokens"]] = MASK
    ids[adjective["tokens"]] = MASK
    given = {one.name: getattr(batch, one.name) for one in fields(MaskedBatch)}
    return EntityBatch(
        **given | {"input_ids": torch.from_numpy(ids)},
        consistency=_tensors(consistency),
        segmentation=_tensors(segmentation),
        atomic=_tensors(atomic),
        adjective=_tensors(adjective),
    )


def _term(
    chosen: np.ndarray,
    atomic: bool,
    ids: np.ndarray,
    first: np.ndarray,
    behind: np.ndarray,
    surface: np.ndarray,
    surfaces: EntitySurfaces,
) -> dict[str, np.ndarray]:
    """What is read and found where the atomic terms of the chosen entities, or their adjective ones, are masked."""
    first, behind = first[chosen], behind[chosen]
    border = first + surfaces.adjective[surface[chosen]].astype(np.int64)
    begin, end = (border, behind) if atomic else (first, border)
    source_first, source_last = (first, border - 1) if atomic else (border, behind - 1)
    sizes = end - begin
    tokens = ranges(begin, end)
    return {
        "tokens": tokens,
        "original": ids[tokens],
        "offsets": tokens - np.repeat(begin, sizes),
        "first": np.repeat(source_first, sizes),
        "last": np.repeat(source_last, sizes),
        "unseen": np.repeat(surfaces.unseen[surface[chosen]], sizes),
    }


def _begins(batch: MaskedBatch, rows: EntityRows) -> np.ndarray:
    """int64 (B,): first token of each row in the batch, which orders them by length."""
    begins = np.empty(len(rows.numbers), dtype=np.int64)
    order = np.argsort(rows.numbers)
    begins[order[np.searchsorted(rows.numbers, batch.rows, sorter=order)]] = batch.layout.firsts.numpy()
    return begins


def _tensors(arrays: Mapping[str, np.ndarray]) -> Targets:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
