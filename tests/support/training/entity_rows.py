"""Random rows with entities, and the surfaces that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.objectives.embert.surfaces import EntitySurfaces, replacement_arrays

VOCABULARY = 300
LETTERS = range(5, 25)
"""Ids of tokens that may merge with a neighbour."""


def surfaces_of(
    tokens: Sequence[Sequence[int]],
    pieces: Sequence[Sequence[int]],
    groups: Sequence[int],
    pools: Sequence[int],
    unseen: Sequence[bool] | None = None,
    frequencies: Sequence[int] | None = None,
) -> EntitySurfaces:
    """Surfaces with these tokens and sizes of sub-entities; the last sub-entity is the atomic term."""
    flags = [np.isin(np.arange(1, sum(sizes) + 1), np.cumsum(sizes)) for sizes in pieces]
    joins = np.zeros(VOCABULARY, dtype=bool)
    joins[LETTERS] = True
    return EntitySurfaces(
        ids=np.concatenate([np.asarray(one, np.uint32) for one in tokens]),
        borders=np.cumsum([0, *map(len, tokens)]),
        is_end=np.concatenate(flags),
        pieces=np.array([len(sizes) for sizes in pieces], np.uint16),
        adjective=np.array([sum(sizes[:-1]) for sizes in pieces], np.uint16),
        unseen=np.array([False] * len(tokens) if unseen is None else unseen),
        joins=joins,
        commonest=np.array([30, 31]),
        **replacement_arrays(
            np.array(groups), np.array(pools), np.ones(len(tokens)) if frequencies is None else np.array(frequencies)
        ),
    )


def random_surfaces(seed: int = 0, groups: int = 12, alone: int = 6) -> EntitySurfaces:
    """Groups of two or three surfaces in two pools, and some surfaces without synonyms; a third of all are long."""
    rng = np.random.default_rng(seed)
    tokens, pieces, group, pool, unseen = [], [], [], [], []
    for number in range(groups + alone):
        for _ in range(rng.integers(2, 4) if number < groups else 1):
            sizes = rng.integers(1, 4, rng.integers(2, 4)) if rng.random() < 0.5 else [int(rng.integers(1, 4))]
            tokens.append(rng.integers(25, VOCABULARY, int(sum(sizes))).tolist())
            pieces.append([int(size) for size in sizes])
            group.append(number if number < groups else -1)
            pool.append(number % 2 + 2 * (number % 6 == 0) if number < groups else -1)
            unseen.append(number % 6 == 0)
    return surfaces_of(tokens, pieces, group, pool, unseen, rng.integers(0, 9, len(tokens)).tolist())


def random_entity_rows(surfaces: EntitySurfaces, rows: int, seed: int = 0, longest: int = 60) -> list[dict[str, Any]]:
    """Pairs of sentences of random tokens and entities; words begin at random tokens, also inside entities."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rows):
        ids, entities, seconds = [2], [], 0
        for sentence in range(2):
            for _ in range(rng.integers(0, 5)):
                surface = int(rng.integers(len(surfaces)))
                tokens = surfaces.ids[surfaces.borders[surface] : surfaces.borders[surface + 1]].tolist()
                filling = rng.integers(5, VOCABULARY, rng.integers(0, 5)).tolist()
                if len(ids) + len(filling) + len(tokens) > longest // 2 * (sentence + 1) - 4:
                    break
                ids += filling
                entities.append((len(ids), len(ids) + len(tokens), surface))
                ids += tokens
            ids += [*rng.integers(25, VOCABULARY, rng.integers(1, 3)).tolist(), 3]
            seconds = seconds or len(ids)
        inside = np.array([place for place in range(1, len(ids) - 1) if place != seconds - 1])
        starts = np.unique(np.concatenate([[1, seconds], inside[rng.random(len(inside)) < 0.5]]))
        made.append(
            {
                "input_ids": np.array(ids, np.uint32),
                "word_starts": starts.astype(np.uint16),
                "second": seconds,
                "entities": np.array(entities, np.int64).reshape(-1, 3),
            }
        )
    return made
