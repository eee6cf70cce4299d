"""All that the stage `knowledge_arrays` reads, made of a few entities and triples, with the real stages' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, stage
from tasks.knowledge.link import EntityFrequenciesParams, entity_frequencies
from tasks.knowledge.neighbours import neighbours
from tasks.knowledge.params import NeighbourParams
from tests.support.text.stages import do

WIDTHS = (5, 3)
"""Of an entity's vector, and of a relation's."""


class GivenParams(StageParams):
    rows: dict[str, list[dict[str, Any]]]
    parts: int = 1


def _write(params: GivenParams, out: Output) -> None:
    for number in range(params.parts):
        with out.part() as part:
            for table, rows in params.rows.items():
                size = -(-len(rows) // params.parts)
                if some := rows[number * size : (number + 1) * size]:
                    part.write(table, some)


@stage(name="given_graph", version=2, params=GivenParams, tables=("kg_entities", "kg_triples"))
def graph_of(inputs: Mapping[str, Any], params: GivenParams, out: Output) -> None:
    _write(params, out)


@stage(name="kg_embeddings", version=0, params=GivenParams, tables=("kg_entity_vectors", "kg_relation_vectors"))
def embeddings_of(inputs: Mapping[str, Any], params: GivenParams, out: Output) -> None:
    _write(params, out)


@stage(name="link", version=0, params=GivenParams, tables=("mention_counts",))
def counts_of(inputs: Mapping[str, Any], params: GivenParams, out: Output) -> None:
    _write(params, out)


def given_knowledge(
    store: ArtifactStore,
    entities: Sequence[Mapping[str, Any]],
    triples: Sequence[tuple[str, str, str]],
    counts: Mapping[str, int],
    *,
    relations: Sequence[str] | None = None,
    vectors: Mapping[str, list[float]] | None = None,
    parts: int = 1,
) -> dict[str, Artifact]:
    """Return the inputs of `knowledge_arrays` by name.

    Args:
        counts: mentions by entity.
        relations: relations that have a vector, by default all.
        vectors: vectors of the entities, by default random ones.
        parts: into how many parts each table is cut.
    """
    drawn = np.random.default_rng(0)
    empty = {"aliases": [], "sources": []}
    rows = {
        "kg_entities": [{**empty, **row} for row in entities],
        "kg_triples": [{"head": h, "relation": r, "tail": t, "sources": []} for h, r, t in triples],
    }
    graph = do(store, graph_of, GivenParams(rows=rows, parts=parts))
    wide, narrow = WIDTHS
    ids = sorted({row["entity_id"] for row in entities})
    given = {one: _floats(drawn, wide) for one in ids} if vectors is None else vectors
    wide = len(given[ids[0]])
    named = sorted({relation for _, relation, _ in triples}) if relations is None else relations
    tables = {
        "kg_entity_vectors": [{"entity_id": one, "vector": given[one]} for one in ids],
        "kg_relation_vectors": [
            {"relation": one, "vector": _floats(drawn, narrow), "projection": _floats(drawn, wide * narrow)}
            for one in named
        ],
    }
    counted = [{"entity_id": one, "count": count, "documents": 1} for one, count in counts.items()]
    links = do(store, counts_of, GivenParams(rows={"mention_counts": counted}, parts=1), entities=graph)
    return {
        "graph": graph,
        "neighbours": do(store, neighbours, NeighbourParams(), graph=graph),
        "embeddings": do(store, embeddings_of, GivenParams(rows=tables, parts=parts), graph=graph),
        "entity_frequencies": do(store, entity_frequencies, EntityFrequenciesParams(), links=links),
    }


def _floats(drawn: np.random.Generator, count: int) -> list[float]:
    return drawn.normal(size=count).astype(np.float32).tolist()
