"""Stage `kg_embeddings`: a knowledge graph in, vectors of its entities and relations out (TransE, then TransR).

Triples that are held out judge the vectors and stop the training; they are not learned from. Checkpoints lie in the
build's scratch folder under the fingerprint of the work: a killed stage, started again, goes on at the last one and
ends with the same bits. With several workers Ray Train starts one process each, and they share every batch; the result
is the same but for rounding.

Time grows with epochs × triples × entity width × relation width; memory, on every worker, with the vectors (four
copies: weights, squares, best so far, one for the checkpoint), about 100 bytes a triple, and the entities × 128 in
judging.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.distributed
from pydantic import BaseModel, ConfigDict, Field

from infra.artifacts import Artifact
from infra.cluster.session import start_ray, stop_ray
from infra.errors import UserError
from infra.only_shown import OnlyShown
from infra.schemas import TABLES
from infra.settings import Settings
from infra.stage import Output, StageParams, stage
from kg.embedding.batches import Triples
from kg.embedding.checkpoint import load_state, save_state
from kg.embedding.split import SplitGraph, hold_out, load_split, save_split
from kg.embedding.training import EmbeddingConfig, Report, train_embedding
from kg.embedding.workers import Workers
from kg.transe import TransE
from kg.transr import TransR
from tasks.training.metrics_log import MetricsLog, read_metrics
from tasks.training.run_spec import Cluster

ROWS_AT_ONCE = 16_384
SECONDS_BETWEEN_LOOKS = 1.0


class EmbedParams(StageParams):
    """Sizes and training of the vectors. What changes speed only is left out of the fingerprint."""

    entity_dim: int = Field(default=200, ge=1, description="width of an entity's vector (SMedBERT: d2)")
    relation_dim: int = Field(default=200, ge=1, description="width of a relation's vector")
    transe_epochs: int = Field(default=20, ge=0, description="passes of TransE, which gives the first vectors; 0: none")
    epochs: int = Field(default=100, ge=1, description="passes of TransR at most")
    batch_size: int = Field(default=4096, ge=1, description="triples in the global batch, over all workers")
    negatives: int = Field(default=1, ge=1, description="corrupted triples for each")
    filtered_negatives: bool = Field(default=False, description="no negative is a triple of the graph")
    margin: float = Field(default=1.0, gt=0)
    squared: bool = Field(default=True, description="squared distances in the loss, or plain ones")
    learning_rate: float = Field(default=0.05, gt=0)
    projection_rate: float = Field(default=0.1, gt=0, description="the matrices' share of the learning rate")
    held_out: int = Field(default=1000, ge=0, description="triples held out at most; 0: judge nothing, stop at the end")
    evaluate_every: int = Field(default=5, ge=1, description="epochs between two looks at the held-out triples")
    patience: int = Field(default=3, ge=0, description="looks without a better MRR after which it stops; 0: never")
    seed: int = 42
    checkpoint_every: int = Field(default=5, ge=1, exclude=True, description="epochs between two checkpoints")
    cluster: Cluster = Field(default_factory=Cluster, exclude=True)


class EmbeddingRun(BaseModel):
    """One training, resolved: what its workers have to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Fingerprint of the stage's work."""
    storage: str
    """Folder or URI of the split graph, the checkpoints and the metrics, seen by every worker."""
    entity_dim: int
    relation_dim: int
    transe: dict[str, Any] | None
    """Settings of `EmbeddingConfig`; None: begin with random vectors."""
    transr: dict[str, Any]

    def path(self, name: str) -> str:
        """A file of the run."""
        return f"{self.storage}/{name}"


@stage(
    name="kg_embeddings",
    version=2,
    params=EmbedParams,
    tables=("kg_entity_vectors", "kg_relation_vectors", "metrics"),
    unit="epoch",
)
def embed_graph(inputs: Mapping[str, Artifact], params: EmbedParams, out: Output) -> None:
    """Embed `inputs["graph"]`, an artifact with the tables kg_entities and kg_triples.

    Raises:
        UserError: an entity is listed twice, a triple names one that is not listed, or there are no triples.
    """
    entity_ids, relations, triples = number_graph(inputs["graph"])
    run = _resolve(params, out)
    held = hold_out(triples, params.held_out, params.seed)
    split = SplitGraph(triples.take(~held), triples.take(held), len(entity_ids), len(relations))
    save_split(split, run.path("split.npz"))
    cluster = params.cluster
    with _followed(run, params.transe_epochs + params.epochs, out):
        if cluster.most_workers > 1:
            _train_on_ray(run, cluster)
        else:
            gpu = torch.cuda.is_available() if cluster.gpu is None else cluster.gpu
            train_graph(run, Workers(device=torch.device("cuda" if gpu else "cpu")))
    steps_per_epoch = -(-len(split.training) // params.batch_size)
    _keep_result(run, entity_ids, relations, steps_per_epoch, out)
    out.count("triples", len(split.training))
    out.count("held_out", len(split.held_out))
    named = np.unique(np.concatenate([triples.heads, triples.tails]))
    out.count("entities_without_triples", len(entity_ids) - len(named))


def number_graph(graph: Artifact) -> tuple[list[str], list[str], Triples]:
    """Entity ids and relations in ascending order, and the distinct triples as places in them, ascending.

    Raises:
        UserError: see `embed_graph`.
    """
    ids = np.array(graph.to_table("kg_entities")["entity_id"].to_pylist(), dtype=object)
    entity_ids, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        twice = entity_ids[counts > 1][0]
        raise UserError(f"kg_entities lists the entity {twice!r} more than once; give every entity one row.")
    table = graph.to_table("kg_triples")
    if not table.num_rows:
        raise UserError("kg_triples holds no triples; there is nothing to embed. Fuse graphs that have some.")
    places = {entity: place for place, entity in enumerate(entity_ids.tolist())}
    heads, tails = (_numbers(table, column, places) for column in ("head", "tail"))
    relations, kinds = np.unique(np.array(table["relation"].to_pylist(), dtype=object), return_inverse=True)
    distinct = np.unique(np.stack([heads, kinds, tails], 1), axis=0)
    return entity_ids.tolist(), relations.tolist(), Triples.of(*distinct.T)


def train_graph(run: EmbeddingRun, workers: Workers) -> None:
    """Train from the last checkpoint, if there is one, to the end; the result is the last checkpoint."""
    graph = load_split(run.path("split.npz"))
    transr, transe = EmbeddingConfig(**run.transr), run.transe and EmbeddingConfig(**run.transe)
    state = load_state(run.path("transr.pt"))
    first_state = load_state(run.path("transe.pt")) if transe and state is None else None
    # Epochs of both on one axis; TransR's begin after the most that TransE may take.
    before = transe.epochs if transe else 0
    resumed = before + _epoch(state) if state else _epoch(first_state)
    log = MetricsLog(run.path("metrics.jsonl"), resumed) if workers.rank == 0 else None

    def report(name: str, offset: int) -> Report:
        def tell(epoch: int, split: str, figures: Mapping[str, float]) -> None:
            assert log is not None, "only the first worker is asked to report"
            log(offset + epoch, split, {f"{name}_{key}": value for key, value in figures.items()})

        return tell

    def save(name: str) -> Callable[[Mapping[str, Any]], None]:
        return lambda state: save_state(state, run.path(name))

    sizes = graph.num_entities, graph.num_relations, run.entity_dim
    if transe and state is None:
        first = TransE(*sizes, seed=transe.seed)
        train_embedding(
            first,
            graph,
            transe,
            workers=workers,
            state=first_state,
            report=report("transe", 0),
            save=save("transe.pt"),
        )
        model = TransR.from_transe(first, run.relation_dim)
    else:
        model = TransR(*sizes, run.relation_dim, seed=transr.seed)
    train_embedding(
        model,
        graph,
        transr,
        workers=workers,
        state=state,
        report=report("transr", before),
        save=save("transr.pt"),
    )


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
    )


def _numbers(table: pa.Table, column: str, places: Mapping[str, int]) -> np.ndarray:
    ids = table[column].to_pylist()
    numbers = np.fromiter((places.get(entity, -1) for entity in ids), np.int64, len(ids))
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        row = int(missing[0])
        raise UserError(
            f"kg_triples, row {row}: the {column} {ids[row]!r} is no entity_id of kg_entities ({len(missing)} such "
            "rows). Give both tables from the same graph."
        )
    return numbers


def _epoch(state: Mapping[str, Any] | None) -> int:
    return int(state["progress"]["epoch"]) if state else 0


def _train_on_ray(run: EmbeddingRun, cluster: Cluster) -> None:
    """One process a worker; one that dies is replaced, and all go on from the last checkpoint."""
    start_ray(cluster.most_workers, Settings.from_environment().ray_address)
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    gpu = torch.cuda.is_available() if cluster.gpu is None else cluster.gpu
    try:
        TorchTrainer(
            _train_worker,
            train_loop_config=run.model_dump(),
            torch_config=TorchConfig(backend="nccl" if gpu else "gloo"),
            scaling_config=ScalingConfig(
                num_workers=cluster.most_workers,
                use_gpu=gpu,
                resources_per_worker={"CPU": 1} | ({"GPU": 1} if gpu else {}),
            ),
            run_config=RunConfig(
                name=run.name,
                storage_path=run.storage,
                failure_config=FailureConfig(max_failures=cluster.max_failures),
            ),
        ).fit()
    finally:
        stop_ray()


def _train_worker(config: dict[str, Any]) -> None:
    """What Ray Train runs on every worker; `config` is an `EmbeddingRun` as a mapping."""
    import ray.train
    import ray.train.torch

    context = ray.train.get_context()
    workers = Workers(
        rank=context.get_world_rank(),
        size=context.get_world_size(),
        add=torch.distributed.all_reduce,
        device=ray.train.torch.get_device(),
    )
    train_graph(EmbeddingRun.model_validate(config), workers)


@contextlib.contextmanager
def _followed(run: EmbeddingRun, epochs: int, out: Output) -> Iterator[None]:
    """Show the run's metrics as progress while the block trains."""
    finished, only_shown = threading.Event(), OnlyShown("The progress of the embeddings")

    def look() -> None:
        with only_shown:
            entries = read_metrics(run.path("metrics.jsonl"))
            if entries:
                note = ", ".join(f"{name} {value:,.4g}" for name, value in entries[-1]["figures"].items())
                out.on_progress("kg_embeddings", entries[-1]["step"], epochs, note)

    def watch() -> None:
        while not finished.wait(SECONDS_BETWEEN_LOOKS):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
    look()


def _keep_result(
    run: EmbeddingRun, entity_ids: list[str], relations: list[str], steps_per_epoch: int, out: Output
) -> None:
    state = load_state(run.path("transr.pt"))
    assert state is not None, "the last epoch is always saved"
    weights = state["progress"]["best_weights"] or state["model"]
    with out.part() as part:
        for start in range(0, len(entity_ids), ROWS_AT_ONCE):
            ids = entity_ids[start : start + ROWS_AT_ONCE]
            vectors = weights["entities"][start : start + ROWS_AT_ONCE]
            part.write("kg_entity_vectors", _table("kg_entity_vectors", ids, vector=vectors))
        part.write(
            "kg_relation_vectors",
            _table("kg_relation_vectors", relations, vector=weights["relations"], projection=weights["projections"]),
        )
        part.write("metrics", _metric_rows(run, steps_per_epoch))


def _table(name: str, ids: list[str], **vectors: torch.Tensor) -> pa.Table:
    """Rows of the ids and of what belongs to each, flattened."""
    schema = TABLES[name]
    arrays = [pa.array(ids, pa.string())]
    for column, values in vectors.items():
        flat = values.reshape(len(ids), -1).numpy()
        offsets = np.arange(0, flat.size + 1, flat.shape[1], dtype=np.int32)
        arrays.append(pa.ListArray.from_arrays(offsets, flat.ravel(), type=schema.field(column).type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _metric_rows(run: EmbeddingRun, steps_per_epoch: int) -> list[dict[str, Any]]:
    return [
        {"step": entry["step"] * steps_per_epoch, "split": entry["split"], "name": name, "value": value}
        for entry in read_metrics(run.path("metrics.jsonl"))
        for name, value in entry["figures"].items()
    ]
