"""Sentence pairs of random tokens with mentions, and a small graph that they mention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.graphs.knowledge_folders import save_knowledge
from tests.support.training.token_rows import TINY, random_rows

SIZE = 6
"""Width of the entities' vectors."""
SMEDBERT_TINY = TINY | {"entity_size": SIZE, "infusion_layer": 1, "neighbours": 3, "negatives": 4}
NEIGHBOURS = [
    [(1, [(0, 1)]), (2, [(1, -1), (0, 1)]), (3, [(0, 1)]), (5, [(0, 1)])],
    [(0, [(0, -1)]), (2, [(2, 1)])],
    [(0, [(1, 1), (0, -1)]), (1, [(2, -1)]), (4, [(1, 1)])],
    [(0, [(0, -1)])],
    [(2, [(1, -1)]), (6, [(0, 1)]), (5, [(1, 1)])],
    [(0, [(0, -1)]), (6, [(2, 1)]), (4, [(1, -1)])],
    [(4, [(0, -1)]), (5, [(2, -1)])],
    [],
    [],
    [],
]
"""By entity, neighbours as (row, triples as (relation, direction)): two pairs have two triples, three entities none.
Entity 4 is the head and the tail of triples of one relation."""
TYPES = [0, 1, 1, 0, 1, -1, 0, 0, 1, -1]


def save_graph(folder: Path, **settings: Any) -> Path:
    """Write the arrays of the graph. Entity e is mentioned e times in the corpus."""
    return save_knowledge(folder, NEIGHBOURS, relations=3, types=TYPES, **({"width": SIZE} | settings))


def mention_rows(count: int, seed: int = 0, longest: int = 60) -> list[dict[str, Any]]:
    """Rows with `input_ids`, `word_starts`, `second` and `mentions`, of 20 tokens and more."""
    drawn = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for row in random_rows(drawn.integers(20, longest, count), seed=seed):
        length = len(row["input_ids"])
        second = int(drawn.integers(8, length - 8))
        row["input_ids"][second - 1] = 3
        row["word_starts"] = np.union1d(row["word_starts"][row["word_starts"] != second - 1], second)
        sides = [(1, second - 1), (second, length - 1)]
        found = [one for begin, end in sides for one in _mentions(begin, end, drawn)]
        rows.append({**row, "second": second, "mentions": np.array(found, dtype=np.int64).reshape(-1, 4)})
    return rows


def _mentions(begin: int, end: int, drawn: np.random.Generator) -> list[tuple[int, int, int, int]]:
    found, place = [], begin + int(drawn.integers(3))
    while place + 4 < end:
        behind = place + int(drawn.integers(1, 5))
        found.append((place, behind, int(drawn.integers(len(NEIGHBOURS))), 0))
        place = behind + int(drawn.integers(4))
    return found
