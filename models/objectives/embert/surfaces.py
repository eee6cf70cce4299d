"""Surfaces of an entity vocabulary as tokens, with their parts and synonyms: what EMBERT knows of entities.

The stage `entity_surfaces` writes them, one `.npy` per field, and every training process maps the same files. Surfaces
that are the same tokens, such as `ACEI` and `acei`, are one.

Shape legend: F surfaces, L their tokens laid end to end, M surfaces that may replace others, G groups of synonyms,
Q pools (a type's entities; apart from them, those kept for evaluation), V vocabulary, N entities in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from infra.errors import UserError


@dataclass(frozen=True)
class EntitySurfaces:
    """The arrays. A surface that may replace others, and be replaced, is in exactly one group of synonyms."""

    ids: np.ndarray
    """uint32 (L,): token ids."""
    borders: np.ndarray
    """int64 (F + 1,): first token of each surface, and L."""
    is_end: np.ndarray
    """bool (L,): whether a token is the last one of a sub-entity."""
    pieces: np.ndarray
    """uint16 (F,): number of sub-entities; 1 for a short entity."""
    adjective: np.ndarray
    """uint16 (F,): tokens before the atomic term; 0 if there are not two terms, or the border is inside a token."""
    unseen: np.ndarray
    """bool (F,): kept for evaluation; training examples do not name it."""
    group: np.ndarray
    """int32 (F,): group of synonyms; -1 for a surface that is not replaced."""
    place: np.ndarray
    """int32 (F,): its index in `members`; -1 as above."""
    members: np.ndarray
    """int32 (M,): surfaces by pool, and in it by group."""
    group_borders: np.ndarray
    """int64 (G + 1,): first member of each group, and M."""
    pool: np.ndarray
    """int32 (G,): pool of each group."""
    pool_borders: np.ndarray
    """int64 (Q + 1,): first member of each pool, and M."""
    weights: np.ndarray
    """float64 (M + 1,): sum of the weights of the members before each; see `other_as_frequent`."""
    joins: np.ndarray
    """bool (V,): whether a token may merge with a neighbour in text, as letters do: `b` and `pd` in `bpd`."""
    commonest: np.ndarray
    """int64 (2,): token that is most frequent in atomic terms of the corpus, and in adjective ones."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the files of a folder that `save` wrote. Raises `UserError` if one is missing or damaged."""
        arrays = {}
        for field in fields(cls):
            file = folder / f"{field.name}.npy"
            try:
                arrays[field.name] = np.load(file, mmap_mode="r")
            except (OSError, ValueError) as error:
                raise UserError(
                    f"{file} cannot be read: {error}. Delete the artifact; the next run makes it again."
                ) from error
        return cls(**arrays)

    def save(self, folder: Path) -> None:
        """Write one file per field into a folder."""
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name), allow_pickle=False)

    def __len__(self) -> int:
        return len(self.borders) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 (F,): tokens of each surface."""
        return np.diff(self.borders)

    def synonym(self, surfaces_N: np.ndarray, uniforms_N: np.ndarray) -> np.ndarray:
        """Return another surface of the group of each, all equally likely; int64 (N,). All must be replaceable."""
        groups = self.group[surfaces_N]
        begins, own = self.group_borders[groups], self.place[surfaces_N]
        others = self.group_borders[groups + 1] - begins - 1
        chosen = begins + np.minimum((uniforms_N * others).astype(np.int64), others - 1)
        return self.members[chosen + (chosen >= own)].astype(np.int64)

    def other(self, surfaces_N: np.ndarray, uniforms_N: np.ndarray) -> np.ndarray:
        """Return a surface of the same pool but of another group for each; int64 (N,). All must be replaceable.

        All these groups are equally likely, and so are the surfaces of one group.
        """
        own = self.group[surfaces_N].astype(np.int64)
        pools = self.pool[own]
        first = np.searchsorted(self.pool, pools)
        others = np.searchsorted(self.pool, pools, side="right") - first - 1
        draw = uniforms_N * others
        chosen = np.minimum(draw.astype(np.int64), others - 1)
        # What is left of the draw, again in [0, 1), chooses the surface.
        rest, group = draw - chosen, first + chosen
        group += group >= own
        begins = self.group_borders[group]
        sizes = self.group_borders[group + 1] - begins
        return self.members[begins + np.minimum((rest * sizes).astype(np.int64), sizes - 1)].astype(np.int64)

    def other_as_frequent(self, surfaces_N: np.ndarray, uniforms_N: np.ndarray) -> np.ndarray:
        """Return a surface as `other` does, but drawn by its frequency.

        Within a pool, a surface is as likely here as among the synonyms that `synonym` draws over the whole corpus
        (`synonym_weights`). So only its context tells whether a surface is right, never the surface itself.
        """
        groups = self.group[surfaces_N]
        pools = self.pool[groups]
        first, last = self.weights[self.pool_borders[pools]], self.weights[self.pool_borders[pools + 1]]
        own_first, own_last = self.weights[self.group_borders[groups]], self.weights[self.group_borders[groups + 1]]
        own = own_last - own_first
        draw = first + uniforms_N * (last - first - own)
        draw = np.where(draw >= own_first, draw + own, draw)
        chosen = np.searchsorted(self.weights, draw, side="right") - 1
        # Rounding may put a draw on the edge of its own group or of its pool.
        begins, ends = self.pool_borders[pools], self.pool_borders[pools + 1]
        chosen = np.clip(chosen, begins, ends - 1)
        inside = (chosen >= self.group_borders[groups]) & (chosen < self.group_borders[groups + 1])
        behind = self.group_borders[groups + 1]
        chosen = np.where(inside, np.where(behind < ends, behind, self.group_borders[groups] - 1), chosen)
        return self.members[chosen].astype(np.int64)


def synonym_weights(frequencies_M: np.ndarray, group_borders: np.ndarray) -> np.ndarray:
    """Return how often each member is expected as a synonym of another: float64 (M,), the sum of the frequencies of the
    other members of its group, divided by their number.

    A trace is added, so that a pool without any occurrence is drawn from uniformly.
    """
    sizes = np.diff(group_borders)
    sums = np.add.reduceat(np.append(frequencies_M, 0.0), group_borders[:-1])[: len(sizes)] if len(sizes) else sizes
    others = np.repeat(sums, sizes) - frequencies_M
    return others / np.repeat(np.maximum(sizes - 1, 1), sizes) + 1e-6


def replacement_arrays(groups_F: np.ndarray, pools_F: np.ndarray, frequencies_F: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields about replacement, from the group of synonyms and the pool of each surface, -1 for none.

    A group needs two surfaces to have a synonym, and a pool two groups to have another entity: surfaces of others are
    not replaced. Members are in the order of their numbers.

    Args:
        groups_F, pools_F: integers (F,); surfaces of one group are in one pool.
        frequencies_F: occurrences in the corpus (F,).
    """
    able = groups_F >= 0
    able[able] = np.bincount(groups_F[able])[groups_F[able]] > 1
    several = np.unique(np.stack([pools_F[able], groups_F[able]]), axis=1)[0]
    able[able] = np.bincount(several, minlength=1)[pools_F[able]] > 1
    members = np.flatnonzero(able)
    members = members[np.lexsort((members, groups_F[members], pools_F[members]))]
    new_group = np.diff(groups_F[members], prepend=-1) != 0
    group_borders = np.append(np.flatnonzero(new_group), len(members))
    pool_of_group = pools_F[members[group_borders[:-1]]]
    new_pool = np.diff(pool_of_group, prepend=-1) != 0
    group, place = np.full(len(groups_F), -1, np.int32), np.full(len(groups_F), -1, np.int32)
    group[members], place[members] = np.cumsum(new_group) - 1, np.arange(len(members))
    weights = synonym_weights(frequencies_F[members].astype(np.float64), group_borders)
    return {
        "group": group,
        "place": place,
        "members": members.astype(np.int32),
        "group_borders": group_borders.astype(np.int64),
        "pool": (np.cumsum(new_pool) - 1).astype(np.int32),
        "pool_borders": np.append(group_borders[:-1][new_pool], len(members)).astype(np.int64),
        "weights": np.concatenate([[0.0], np.cumsum(weights)]),
    }
