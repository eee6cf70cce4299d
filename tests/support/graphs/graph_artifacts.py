"""Artifacts of graphs made of given or random triples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, run, stage
from kg.graph import KnowledgeGraph


class GivenGraph(StageParams):
    triples: tuple[tuple[str, str, str], ...]
    lost: str = ""


@stage(name="given_graph", version=1, params=GivenGraph, tables=("kg_entities", "kg_triples"))
def given_graph(inputs: Mapping[str, Any], params: GivenGraph, out: Output) -> None:
    """A graph in two parts, one entity of it left out where it is named."""
    graph = KnowledgeGraph.from_triples(params.triples)
    keep = [name != params.lost for name in graph.entity_ids]
    entities, triples = graph.entities.filter(pa.array(keep, pa.bool_())), graph.id_triples()
    for half in (slice(None, None, 2), slice(1, None, 2)):
        with out.part() as part:
            part.write("kg_entities", entities.take(np.arange(entities.num_rows)[half]))
            part.write("kg_triples", triples.take(np.arange(triples.num_rows)[half]))


def random_triples(seed: int) -> tuple[tuple[str, str, str], ...]:
    drawn = np.random.default_rng(seed)
    ends = (120 * drawn.random((500, 2)) ** 2).astype(int)
    return tuple((f"e{head}", f"r{head % 3}", f"e{tail}") for head, tail in ends.tolist())


def graph_artifact(store: ArtifactStore, triples: tuple[tuple[str, str, str], ...], lost: str = "") -> Artifact:
    return run(given_graph, store, GivenGraph(triples=triples, lost=lost), {}).artifact
