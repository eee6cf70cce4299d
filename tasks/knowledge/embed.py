"""Stage `kg_embeddings`: a knowledge graph in, vectors of its entities and relations out (TransE, then TransR).

Held-out triples, which are not learned from, judge the vectors and stop the training; the table kg_held_out_triples
lists them. Checkpoints are in the build's scratch folder under the fingerprint of the work: a killed stage, started
again, resumes at the last one and ends with the same bits. One worker trains in this process. Several are Ray Train's,
one process each, started by a program of their own (tasks/training/launch), and share every batch; only rounding
differs.

Time grows with epochs × triples × entity width × relation width. Memory of each worker grows with the vectors (four
copies: weights, squares, best so far, one for the checkpoint), with about 100 bytes per triple, and with the entities
× 128 when held-out triples are ranked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from infra.artifacts import Artifact
from infra.schemas import TABLES
from infra.stage import Output, stage
from kg.embedding.batches import Triples
from kg.embedding.checkpoint import load_state
from kg.embedding.numbering import NumberedGraph, number_graph
from kg.embedding.split import SplitGraph, hold_out, save_split
from kg.embedding.training import EmbeddingConfig
from tasks.knowledge.embed_run import EmbeddingRun
from tasks.knowledge.embed_worker import SPLIT, TRANSR, train_here
from tasks.knowledge.params import EmbedParams
from tasks.training.launch import followed, launch
from tasks.training.metrics_log import read_metrics

ROWS_AT_ONCE = 16_384
"""Vectors that are converted to rows at a time."""


@stage(
    name="kg_embeddings",
    version=3,
    params=EmbedParams,
    tables=("kg_entity_vectors", "kg_relation_vectors", "kg_held_out_triples", "metrics"),
    unit="epoch",
    heavy=True,
)
def embed_graph(inputs: Mapping[str, Artifact], params: EmbedParams, out: Output) -> None:
    """Embed `inputs["graph"]`, an artifact with the tables kg_entities and kg_triples.

    Raises:
        UserError: an entity is listed twice, a triple names one that is not listed, or there are no triples.
    """
    tables = inputs["graph"]
    graph = number_graph(tables.to_table("kg_entities"), tables.to_table("kg_triples"))
    run = _resolve(params, out)
    split = _split(graph, params)
    if not run.is_written():  # run.json is written after the split: where it is, the split is whole
        save_split(split, run.path(SPLIT))
    if params.cluster.most_workers > 1:
        launch(run, out.on_progress)
    else:
        run.write()
        with followed(run, out.on_progress):
            train_here(run)
    steps_per_epoch = -(-len(split.training) // params.batch_size)
    _keep_result(run, graph, split, steps_per_epoch, out)
    out.count("triples", len(split.training))
    out.count("held_out", len(split.held_out))
    named = np.unique(np.concatenate([graph.triples.heads, graph.triples.tails]))
    out.count("entities_without_triples", len(graph.entity_ids) - len(named))


def _split(graph: NumberedGraph, params: EmbedParams) -> SplitGraph:
    held = hold_out(graph.triples, params.held_out, params.seed)
    training, held_out = graph.triples.take(~held), graph.triples.take(held)
    return SplitGraph(training, held_out, len(graph.entity_ids), len(graph.relations))


def _resolve(params: EmbedParams, out: Output) -> EmbeddingRun:
    shared = {name: getattr(params, name) for name in EmbeddingConfig.__dataclass_fields__}
    transr = EmbeddingConfig(**shared)
    transe = EmbeddingConfig(**{**shared, "epochs": params.transe_epochs}) if params.transe_epochs else None
    return EmbeddingRun(
        name=out.fingerprint,
        storage=out.scratch,
        entity_dim=params.entity_dim,
        relation_dim=params.relation_dim,
        transe=asdict(transe) if transe else None,
        transr=asdict(transr),
        cluster=params.cluster,
    )


def _keep_result(run: EmbeddingRun, graph: NumberedGraph, split: SplitGraph, steps_per_epoch: int, out: Output) -> None:
    state = load_state(run.path(TRANSR))
    assert state is not None, "the last epoch is always saved"
    # Without held-out triples no weights are best, and the last ones count.
    weights = state["progress"]["best_weights"] or state["model"]
    with out.part() as part:
        for start in range(0, len(graph.entity_ids), ROWS_AT_ONCE):
            ids = graph.entity_ids[start : start + ROWS_AT_ONCE]
            vectors = weights["entities"][start : start + ROWS_AT_ONCE]
            part.write("kg_entity_vectors", _table("kg_entity_vectors", ids, vector=vectors))
        part.write(
            "kg_relation_vectors",
            _table(
                "kg_relation_vectors",
                graph.relations,
                vector=weights["relations"],
                projection=weights["projections"],
            ),
        )
        if len(split.held_out):
            part.write("kg_held_out_triples", _named(graph, split.held_out))
        part.write("metrics", _metric_rows(run, steps_per_epoch))


def _table(name: str, ids: list[str], **vectors: torch.Tensor) -> pa.Table:
    """Return a table of ids, each with its vectors or matrices as flat lists."""
    schema = TABLES[name]
    arrays = [pa.array(ids, pa.string())]
    for column, values in vectors.items():
        flat = values.reshape(len(ids), -1).numpy()
        offsets = np.arange(0, flat.size + 1, flat.shape[1], dtype=np.int32)
        arrays.append(pa.ListArray.from_arrays(offsets, flat.ravel(), type=schema.field(column).type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _named(graph: NumberedGraph, triples: Triples) -> pa.Table:
    """Return triples by the names of their entities and relations."""
    ids, relations = pa.array(graph.entity_ids), pa.array(graph.relations)
    columns = {
        "head": ids.take(pa.array(triples.heads)),
        "relation": relations.take(pa.array(triples.relations)),
        "tail": ids.take(pa.array(triples.tails)),
    }
    return pa.table(columns, schema=TABLES["kg_held_out_triples"])


def _metric_rows(run: EmbeddingRun, steps_per_epoch: int) -> list[dict[str, Any]]:
    return [
        {"step": entry["step"] * steps_per_epoch, "split": entry["split"], "name": name, "value": value}
        for entry in read_metrics(run.metrics_path)
        for name, value in entry["figures"].items()
    ]
