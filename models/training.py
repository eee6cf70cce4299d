"""The training loop: plain torch, the same on one process and on many, resumable at any step.

Every random choice of a step (which examples, masks, dropout, samples) is a function of the seed and the
step, so a checkpoint holds weights, optimiser state and the number of steps, and nothing else. The loop knows
neither Ray nor Prefect: it is handed a worker's place among the workers and callbacks that save and report.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from models.distributed import global_sum
from models.optimisation import clip_gradients, learning_rate_at, make_optimizer, set_learning_rate
from models.reader import ExampleStream

CHECKPOINT_FILE = "state.pt"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast and how often; eHealth Table 7 where a field names no other source."""

    steps: int
    """Optimiser steps in all."""
    batch_size: int
    """Sequences in the global batch, over all workers."""
    learning_rate: float
    """Peak of the schedule."""
    warmup_steps: int
    """Steps of linear warm-up; the rate then falls linearly to 0."""
    adam_epsilon: float = 1e-6
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    """Largest norm of the gradient (ELECTRA)."""
    seed: int = 42
    log_every: int = 10
    """Steps between two entries of the curves."""
    evaluate_every: int = 200
    """Steps between two evaluations on held-out text; the last step is always evaluated."""
    held_out_batches: int = 4
    """Batches of held-out text an evaluation looks at."""
    checkpoint_every: int = 200
    """Steps between two checkpoints; the last step is always saved."""

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "batch_size",
            "log_every",
            "evaluate_every",
            "held_out_batches",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"training.warmup_steps ({self.warmup_steps}) must be at least 0 and under training.steps "
                f"({self.steps}); otherwise the learning rate never reaches its peak"
            )


def training_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """The configuration from a mapping, as presets hold it.

    Raises:
        ValueError: an unknown key (naming near ones), a missing key or an impossible value.
    """
    known = {one.name: one for one in fields(TrainingConfig)}
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} in training; did you mean {', '.join(near)}?")
    missing = [name for name, one in known.items() if one.default is MISSING and name not in settings]
    if missing:
        raise ValueError(f"training needs {', '.join(missing)}")
    return TrainingConfig(**settings)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """This process's place among the training processes."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


Report = Callable[[int, str, Mapping[str, float]], None]
"""Takes the step, the split (train or held_out) and figures by name. Called on rank 0 only."""
Save = Callable[[int, Mapping[str, Any] | None, Mapping[str, float]], None]
"""Takes the step, the state to keep, and the newest held-out figures. Called on every rank; the state, a snapshot in
CPU memory, is None on all but rank 0."""


def train(
    objective: Any,
    examples: ExampleStream,
    held_out: ExampleStream,
    config: TrainingConfig,
    *,
    worker: Worker | None = None,
    state: Mapping[str, Any] | None = None,
    report: Report = lambda step, split, figures: None,
    save: Save = lambda step, state, figures: None,
) -> None:
    """Train `objective` (an `nn.Module` that is an `Objective`) in place, from `state` where one is given.

    Raises:
        FloatingPointError: a loss is not a finite number; the message names the step and the terms.
    """
    worker = worker or Worker()
    objective.to(worker.device)
    optimizer = make_optimizer(
        objective,
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
    )
    first = _restore(objective, optimizer, state)
    model = DistributedDataParallel(objective) if worker.world_size > 1 else objective
    meter = _Meter()
    held: dict[str, float] = {}
    for step in range(first, config.steps):
        objective.train()
        rate = learning_rate_at(
            step, peak=config.learning_rate, warmup_steps=config.warmup_steps, total_steps=config.steps
        )
        set_learning_rate(optimizer, rate)
        rows, indices = examples.batch(step, config.batch_size, worker.rank, worker.world_size)
        batch = objective.collate(rows, seed=config.seed, step=step, row_indices=indices).to(worker.device)
        losses = model(batch)
        losses["loss"].backward()
        norm = clip_gradients(objective, config.clip_norm)
        _check_finite(step, losses, norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.add(batch.tokens)
        done = step + 1
        if done % config.log_every == 0 or done == config.steps:
            figures = _global_means(losses, worker)
            figures |= {"gradient_norm": float(norm), "learning_rate": rate}
            figures |= meter.read(worker)
            if worker.rank == 0:
                report(done, "train", figures)
        if done % config.evaluate_every == 0 or done == config.steps:
            with meter.paused():
                held = evaluate(objective, held_out, config, worker)
            if worker.rank == 0:
                report(done, "held_out", held)
        if done % config.checkpoint_every == 0 or done == config.steps:
            with meter.paused():
                save(done, _state(objective, optimizer, done) if worker.rank == 0 else None, held)


@torch.no_grad()
def evaluate(objective: Any, held_out: ExampleStream, config: TrainingConfig, worker: Worker) -> dict[str, float]:
    """Figures on held-out text, the same examples, masks and samples at every evaluation.

    The batch is the training batch, or all of the held-out text where there is less of it.
    """
    objective.eval()
    size = min(config.batch_size, held_out.rows)
    batches = max(1, min(config.held_out_batches, held_out.rows // size))
    sums: dict[str, float] = {}
    for number in range(batches):
        rows, indices = held_out.batch(number, size, worker.rank, worker.world_size)
        # A seed of its own keeps these masks apart from the masks of training step `number`.
        batch = objective.collate(rows, seed=config.seed + 1, step=number, row_indices=indices)
        for name, value in objective.metrics(batch.to(worker.device)).items():
            sums[name] = sums.get(name, 0.0) + value
    return objective.rates(add_over_ranks(sums, worker))


def save_state(state: Mapping[str, Any], folder: Path) -> None:
    """Write a checkpoint into a folder."""
    torch.save(dict(state), folder / CHECKPOINT_FILE)


def load_state(folder: Path) -> dict[str, Any]:
    """Read a checkpoint; only tensors and plain values are admitted.

    Raises:
        ValueError: the file is damaged or is no checkpoint of ours.
    """
    path = folder / CHECKPOINT_FILE
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {key: state[key] for key in ("step", "model", "optimizer")}
    except Exception as error:
        raise ValueError(f"{path} is not a readable checkpoint: {error}. Delete it to start over.") from error


def _state(objective: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    return copy.deepcopy({"step": step, "model": objective.state_dict(), "optimizer": optimizer.state_dict()})


def _restore(objective: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any] | None) -> int:
    if state is None:
        return 0
    objective.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _global_means(losses: Mapping[str, Tensor], worker: Worker) -> dict[str, float]:
    """Each worker's term is its share times the number of workers, so the mean over workers is the term."""
    sums = add_over_ranks({name: float(value.detach()) for name, value in losses.items()}, worker)
    return {name: sums[name] / worker.world_size for name in losses}


def add_over_ranks(figures: Mapping[str, float], worker: Worker) -> dict[str, float]:
    """Named figures, each added over all workers; every worker must hold the same names."""
    values = torch.tensor(list(figures.values()), dtype=torch.float64, device=worker.device)
    return dict(zip(figures, global_sum(values).tolist(), strict=True))


def _check_finite(step: int, losses: Mapping[str, Tensor], norm: Tensor) -> None:
    values = {name: float(value.detach()) for name, value in losses.items()}
    if math.isfinite(float(norm)) and math.isfinite(values["loss"]):
        return
    terms = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
    raise FloatingPointError(
        f"step {step + 1}: the loss or its gradient is not finite ({terms}, gradient norm {float(norm):.4g}). "
        "The last checkpoint is intact; lower training.learning_rate or change training.seed."
    )


class _Meter:
    """Tokens a second over all workers, every view counted, evaluation and saving left out."""

    def __init__(self) -> None:
        self._reset()

    def add(self, tokens: int) -> None:
        self._tokens += tokens

    def read(self, worker: Worker) -> dict[str, float]:
        """Figures since the last reading."""
        tokens = add_over_ranks({"tokens": float(self._tokens)}, worker)["tokens"]
        seconds = time.perf_counter() - self._started
        self._reset()
        return {"tokens_per_second": tokens / seconds}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time spent in the block."""
        began = time.perf_counter()
        yield
        self._started += time.perf_counter() - began

    def _reset(self) -> None:
        self._tokens = 0
        self._started = time.perf_counter()
