"""A knowledge graph's tables as numbers, which an embedding trains on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from infra.errors import UserError
from kg.embedding.batches import Triples


class NumberedGraph(NamedTuple):
    """A graph whose entities and relations are places in two lists."""

    entity_ids: list[str]
    """Ascending."""
    relations: list[str]
    """Ascending."""
    triples: Triples
    """Distinct, in ascending order."""


def number_graph(entities: pa.Table, triples: pa.Table) -> NumberedGraph:
    """Number the entities and relations of a graph; the order and repeats of its triples do not matter.

    Args:
        entities: table kg_entities, or its column entity_id.
        triples: table kg_triples, or its columns head, relation and tail.

    Raises:
        UserError: an entity is listed twice, a triple names one that is not listed, or there are no triples.
    """
    ids = np.array(entities["entity_id"].to_pylist(), dtype=object)
    entity_ids, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        twice = entity_ids[counts > 1][0]
        raise UserError(f"kg_entities lists the entity {twice!r} more than once; give every entity one row.")
    if not triples.num_rows:
        raise UserError("kg_triples has no rows, so there is nothing to embed. Fuse graphs that have triples.")
    places = {entity: place for place, entity in enumerate(entity_ids.tolist())}
    heads, tails = (_numbers(triples, column, places) for column in ("head", "tail"))
    relations, kinds = np.unique(np.array(triples["relation"].to_pylist(), dtype=object), return_inverse=True)
    distinct = np.unique(np.stack([heads, kinds, tails], 1), axis=0)
    return NumberedGraph(entity_ids.tolist(), relations.tolist(), Triples.of(*distinct.T))


def _numbers(triples: pa.Table, column: str, places: Mapping[str, int]) -> np.ndarray:
    """int64 (T,): the places of a column's entities."""
    ids = triples[column].to_pylist()
    numbers = np.fromiter((places.get(entity, -1) for entity in ids), np.int64, len(ids))
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        row = int(missing[0])
        raise UserError(
            f"kg_triples, row {row}: the {column} {ids[row]!r} is not an entity_id of kg_entities ({len(missing)} such "
            "rows). Give both tables from the same graph."
        )
    return numbers
