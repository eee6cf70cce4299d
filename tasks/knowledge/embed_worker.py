"""One process that trains an embedding: TransE for the first vectors, then TransR, each from its last checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed

from kg.embedding.checkpoint import load_state, save_state
from kg.embedding.split import load_split
from kg.embedding.training import EmbeddingConfig, Report, train_embedding
from kg.embedding.workers import Workers
from kg.transe import TransE
from kg.transr import TransR
from tasks.knowledge.embed_run import EmbeddingRun
from tasks.training.metrics_log import MetricsLog

SPLIT, TRANSE, TRANSR = "split.npz", "transe.pt", "transr.pt"
"""Files of a run: the graph with its held-out triples, and the last checkpoint of each model."""


def train_here(run: EmbeddingRun) -> None:
    """Train in this process, without Ray."""
    gpu = torch.cuda.is_available() if run.cluster.gpu is None else run.cluster.gpu
    train_graph(run, Workers(device=torch.device("cuda" if gpu else "cpu")))


def train_worker(config: dict[str, Any]) -> None:
    """Do one worker's share; Ray Train calls it with an `EmbeddingRun` as a mapping."""
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


def train_graph(run: EmbeddingRun, workers: Workers) -> None:
    """Train from the last checkpoint, if there is one, to the end. The last checkpoint of TransR is the result."""
    graph = load_split(run.path(SPLIT))
    transr, transe = EmbeddingConfig(**run.transr), run.transe and EmbeddingConfig(**run.transe)
    state = load_state(run.path(TRANSR))
    first_state = load_state(run.path(TRANSE)) if transe and state is None else None
    # Both models share one axis of epochs, on which TransR begins after the most that TransE may take.
    resumed = run.transe_epochs + _epoch(state) if state else _epoch(first_state)
    log = MetricsLog(run.metrics_path, resumed) if workers.rank == 0 else None

    def report(name: str, offset: int) -> Report:
        def append(epoch: int, split: str, figures: Mapping[str, float]) -> None:
            assert log is not None, "only the first worker is asked to report"
            log(offset + epoch, split, {f"{name}_{key}": value for key, value in figures.items()})

        return append

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
            save=save(TRANSE),
        )
        model = TransR.from_transe(first, run.relation_dim)
    else:  # without TransE, or resuming TransR, whose state replaces these weights
        model = TransR(*sizes, run.relation_dim, seed=transr.seed)
    train_embedding(
        model,
        graph,
        transr,
        workers=workers,
        state=state,
        report=report("transr", run.transe_epochs),
        save=save(TRANSR),
    )
    if workers.rank == 0:
        run.write_result(b"{}")


def _epoch(state: Mapping[str, Any] | None) -> int:
    return int(state["progress"]["epoch"]) if state else 0
