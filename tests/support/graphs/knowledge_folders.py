"""Folders of knowledge arrays, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.knowledge import DESCRIPTION, FORMAT, KINDS


def save_knowledge(
    folder: Path,
    neighbours: Sequence[Sequence[tuple[int, Sequence[tuple[int, int]]]]],
    *,
    relations: int,
    width: int = 4,
    types: Sequence[int] | None = None,
) -> Path:
    """Write the arrays of a graph with random vectors.

    Args:
        neighbours: for each entity its neighbours, best first: row, and triples as (relation, direction).
        types: type of each entity, by default 0, or -1; a type more than the largest is named.
    """
    drawn = np.random.default_rng(0)
    count = len(neighbours)
    kinds = [0] * count if types is None else list(types)
    pairs = [pair for some in neighbours for pair in some]
    triples = [triple for _, joined in pairs for triple in joined]
    ids = [f"实体{row}".encode() for row in range(count)]
    arrays = {
        "entity_id_bytes": np.frombuffer(b"".join(ids), dtype=np.uint8),
        "entity_id_offsets": np.cumsum([0, *map(len, ids)]),
        "types": kinds,
        "frequencies": np.arange(count),
        "neighbour_offsets": np.cumsum([0, *map(len, neighbours)]),
        "neighbours": [other for other, _ in pairs],
        "scores": np.linspace(1, 0, len(pairs)),
        "triple_offsets": np.cumsum([0, *(len(joined) for _, joined in pairs)]),
        "relations": [relation for relation, _ in triples],
        "directions": [direction for _, direction in triples],
        "entity_vectors": drawn.normal(size=(count, width)),
        "has_vector": [True] * count,
        "relation_vectors": drawn.normal(size=(relations, width)),
        "projections": drawn.normal(size=(relations, width, width)),
    }
    moved = np.einsum("ed,rdc->rec", arrays["entity_vectors"], arrays["projections"])
    arrays["projected_norms"] = np.linalg.norm(moved, axis=2)
    for name, (kind, _) in KINDS.items():
        np.save(folder / f"{name}.npy", np.asarray(arrays[name]).astype(kind))
    described = {
        "format": FORMAT,
        "graph": {"stage": "fuse_graphs", "fingerprint": "0" * 32},
        "types": [f"类型{number}" for number in range(max([0, *kinds]) + 1)],
        "relations": [f"关系{number}" for number in range(relations)],
    }
    (folder / DESCRIPTION).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    return folder
