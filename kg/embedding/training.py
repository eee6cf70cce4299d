"""Training of TransE and TransR: plain torch, identical on one process and on many, resumable at any epoch.

Each worker computes the gradient of its share of a batch; the shares are added up, and all take the same step. A batch
depends only on the seed and the step (`kg/embedding/batches.py`), so a checkpoint needs only weights, optimiser state
and the number of epochs. The loop knows neither Ray nor files: its place among the workers and the callbacks that
report and save are arguments.

A worker uses one CPU thread: the products are small, and threads that wait for each other cost more than they gain
(CMeKG, widths 200, two threads: a third faster on idle cores, 24 times slower on busy ones). To use more cores, use
more workers.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from kg.embedding.batches import TrainingBatch, TrainingBatches
from kg.embedding.gradients import RowGradient, add_over_workers
from kg.embedding.known import KnownTriples
from kg.embedding.limits import Limit
from kg.embedding.link_prediction import filtered_ranks, means_of, rank_sums
from kg.embedding.loss import MarginLoss
from kg.embedding.negatives import BernoulliNegatives
from kg.embedding.optimiser import RowAdagrad
from kg.embedding.split import SplitGraph
from kg.embedding.workers import Workers


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """Settings of a training of an embedding.

    Raises:
        ValueError: a value is impossible; the message names it.
    """

    epochs: int
    """Maximum number of passes over the triples."""
    batch_size: int = 4096
    """Triples in the global batch, over all workers."""
    negatives: int = 1
    """Corrupted triples per triple."""
    filtered_negatives: bool = False
    """Whether triples of the graph are excluded from the negatives."""
    margin: float = 1.0
    squared: bool = True
    """Squared distances in the loss (Lin et al. 2015, Eq. 8), or plain ones (SMedBERT, Eq. 14)."""
    learning_rate: float = 0.05
    """Learning rate of Adagrad."""
    projection_rate: float = 0.1
    """Factor on the learning rate of the matrices. Adagrad's first step has the size of the rate in every entry; at the
    full rate it would drown the identity that TransR starts from, and with it what TransE has learned."""
    seed: int = 42
    evaluate_every: int = 5
    """Epochs between two evaluations on the held-out triples; the last epoch is always evaluated."""
    patience: int = 3
    """Evaluations without a better MRR before training stops; 0: never."""
    checkpoint_every: int = 5
    """Epochs between two checkpoints; the last epoch is always saved."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("margin", "learning_rate", "projection_rate"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number above 0")


_LEAST = {"epochs": 1, "batch_size": 1, "negatives": 1, "evaluate_every": 1, "patience": 0, "checkpoint_every": 1}


class EmbeddingModel(Protocol):
    """TransE, TransR, or another model of h + r ≈ t: a `torch.nn.Module` with these members."""

    @property
    def limits(self) -> Mapping[str, Limit]: ...

    def gradients(
        self, batch: TrainingBatch, loss: MarginLoss, *, scale: float
    ) -> tuple[Tensor, dict[str, RowGradient]]: ...

    def touched(self, batch: TrainingBatch) -> dict[str, np.ndarray]: ...

    def points(self, relation: int) -> Tensor: ...

    def translation(self, relation: int) -> Tensor: ...


@dataclass
class Progress:
    """State of a training: epochs done and the best weights."""

    epoch: int = 0
    best: dict[str, float] = field(default_factory=dict)
    """Figures of the best evaluation on the held-out triples, with its `epoch`; empty before the first."""
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    stale: int = 0
    """Evaluations since the best one."""


Report = Callable[[int, str, Mapping[str, float]], None]
"""Takes the epochs done, the split (train or held_out) and figures by name. Called on rank 0 only."""
Save = Callable[[Mapping[str, Any]], None]
"""Takes the state to keep. Called on rank 0 only."""


def train_embedding(
    model: Any,
    graph: SplitGraph,
    config: EmbeddingConfig,
    *,
    workers: Workers | None = None,
    state: Mapping[str, Any] | None = None,
    report: Report = lambda epoch, split, figures: None,
    save: Save = lambda state: None,
) -> dict[str, float]:
    """Train `model` (an `nn.Module` that is an `EmbeddingModel`) in place, from `state` if one is given.

    In the end it has the weights that were best on the held-out triples; their figures, with their `epoch`, are
    returned. Without held-out triples it has the last weights, and the result is empty.

    Time of a step: see the model; memory: the model, its squares and the best weights so far.

    Raises:
        ValueError: there are no triples to train on.
        FloatingPointError: the loss is not a finite number.
    """
    if not len(graph.training):
        raise ValueError("there are no triples to train on")
    workers = workers or Workers()
    model.to(workers.device)
    with _one_thread(workers.device):
        return _Training(model, graph, config, workers, state).run(report, save)


class _Training:
    """One training in progress."""

    def __init__(
        self,
        model: Any,
        graph: SplitGraph,
        config: EmbeddingConfig,
        workers: Workers,
        state: Mapping[str, Any] | None,
    ) -> None:
        self.model, self.config, self.workers = model, config, workers
        self.loss = MarginLoss(margin=config.margin, squared=config.squared)
        self.optimiser = RowAdagrad(model, model.limits, config.learning_rate, {"projections": config.projection_rate})
        self.batches = _batches(graph, config)
        self.judge = _Judge(graph, workers)
        self.progress = Progress()
        if state is not None:
            model.load_state_dict(state["model"])
            self.optimiser.load(state["squares"])
            self.progress = Progress(**state["progress"])

    def run(self, report: Report, save: Save) -> dict[str, float]:
        progress, config = self.progress, self.config
        while progress.epoch < config.epochs and not self._gave_up():
            figures = self._epoch()
            progress.epoch += 1
            self._report(report, "train", figures)
            if self._due(config.evaluate_every):
                self._judge(report)
            if self.workers.rank == 0 and (self._due(config.checkpoint_every) or self._gave_up()):
                save(self._state())
        if progress.best_weights:
            self.model.load_state_dict(progress.best_weights)
        return progress.best

    def _epoch(self) -> dict[str, float]:
        """Pass over the triples once; returns the mean loss of a pair, and the pace of all workers together."""
        steps, began = self.batches.steps_per_epoch, time.perf_counter()
        total = torch.zeros((), dtype=torch.float64, device=self.workers.device)
        for step in range(self.progress.epoch * steps, (self.progress.epoch + 1) * steps):
            total += self._step(self.batches.at(step))
        loss = self.workers.add_figures({"loss": float(total)})["loss"] / self.batches.triples
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"epoch {self.progress.epoch + 1}: the loss became {loss}. The last checkpoint is intact; "
                "lower the learning rate."
            )
        return {"loss": loss, "triples_per_second": self.batches.triples / (time.perf_counter() - began)}

    def _step(self, batch: TrainingBatch) -> Tensor:
        """Take one step; returns this worker's share of the batch's loss, as a sum over triples."""
        share = batch.shard(self.workers.rank, self.workers.size)
        loss, gradients = self.model.gradients(share, self.loss, scale=1 / batch.entities.size)
        if self.workers.size > 1:
            touched = self.model.touched(batch)
            gradients = {
                name: add_over_workers(gradient, torch.from_numpy(touched[name]).to(self.workers.device), self.workers)
                for name, gradient in gradients.items()
            }
        self.optimiser.step(gradients)
        return loss * len(batch)

    def _judge(self, report: Report) -> None:
        figures = self.judge.figures(self.model)
        if not figures:
            return
        self._report(report, "held_out", figures)
        progress = self.progress
        if figures["mrr"] > progress.best.get("mrr", -1.0):
            progress.best = {**figures, "epoch": progress.epoch}
            progress.best_weights = {name: table.detach().clone() for name, table in self.model.state_dict().items()}
            progress.stale = 0
        else:
            progress.stale += 1

    def _gave_up(self) -> bool:
        return 0 < self.config.patience <= self.progress.stale

    def _due(self, every: int) -> bool:
        return self.progress.epoch % every == 0 or self.progress.epoch == self.config.epochs

    def _report(self, report: Report, split: str, figures: Mapping[str, float]) -> None:
        if self.workers.rank == 0:
            report(self.progress.epoch, split, figures)

    def _state(self) -> dict[str, Any]:
        return {
            "progress": vars(self.progress),
            "model": self.model.state_dict(),
            "squares": self.optimiser.state(),
        }


def _batches(graph: SplitGraph, config: EmbeddingConfig) -> TrainingBatches:
    given = graph.training
    sampler = BernoulliNegatives(
        given.heads,
        given.relations,
        given.tails,
        graph.num_entities,
        graph.num_relations,
        filtered=config.filtered_negatives,
    )
    return TrainingBatches(given, sampler, batch_size=config.batch_size, negatives=config.negatives, seed=config.seed)


class _Judge:
    """Ranks the ends of the held-out triples among all entities; each worker does a share of the triples."""

    def __init__(self, graph: SplitGraph, workers: Workers) -> None:
        self._workers = workers
        held, given = graph.held_out, graph.training
        self._empty = not len(held)
        if self._empty:
            return
        # Shares are runs in the order of relations, so that a worker projects all entities for few relations.
        order = np.argsort(held.relations, kind="stable")
        rank, size = workers.rank, workers.size
        self._share = held.take(order[len(held) * rank // size : len(held) * (rank + 1) // size])
        self._known = KnownTriples(
            np.concatenate([given.heads, held.heads]),
            np.concatenate([given.relations, held.relations]),
            np.concatenate([given.tails, held.tails]),
            graph.num_entities,
            graph.num_relations,
        )

    def figures(self, model: EmbeddingModel) -> dict[str, float]:
        """Return MRR and Hits@k over all held-out triples, the same bits on all workers; empty without such triples."""
        if self._empty:
            return {}
        return means_of(self._workers.add_figures(rank_sums(filtered_ranks(model, self._share, self._known))))


@contextlib.contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
