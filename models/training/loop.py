"""Training loop: plain torch, the same on one process and on many, resumable at any step.

Every random choice of a step (masks, dropout, samples) is a function of the seed and the step, and the rows of a batch
follow from a position in the stream, so a checkpoint (models/training/checkpoint.py) holds no generator. The global
batch is the same for any number of workers and of micro-batches. The loop knows neither Ray nor Prefect: it is given a
worker's place among the workers, and callbacks that save and report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.distributed import global_sum
from models.training.checkpoint import CHECKPOINT_FILE, Progress, load_state, restore, save_state, snapshot
from models.training.config import TrainingConfig, training_config
from models.training.global_batch import read_global_batch, share_out
from models.training.meter import Meter
from models.training.optimisation import clip_gradients, learning_rate_at, make_optimizer, set_learning_rate
from models.training.parallel import parallelise, without_averaging
from models.training.prefetch import Prefetcher
from models.training.reader import ExampleStream
from models.training.spikes import SpikeGuard
from models.training.step_window import StepWindow
from models.training.streams import Streams, by_task

__all__ = [
    "CHECKPOINT_FILE",
    "Report",
    "Save",
    "TrainingConfig",
    "Worker",
    "evaluate",
    "load_state",
    "save_state",
    "train",
    "training_config",
]


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Place of this process among the training processes."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


Report = Callable[[int, str, Mapping[str, float]], None]
"""Callback that takes the step, the split and figures by name. It is called on rank 0 only.

Splits: step, each single step, reported every `log_every` steps, in order; train, after them, their means and their
speed; held_out; skipped, a step that was not taken, reported at once.
"""
Save = Callable[[int, Mapping[str, Any] | None, Mapping[str, float]], None]
"""Callback that takes the step, the state to keep, and the latest held-out figures (empty before the first evaluation).
It is called on every rank; the state is None on all but rank 0. It is a copy on the CPU, which later steps do not
change.
"""


def train(
    objective: Any,
    examples: Streams,
    held_out: Streams,
    config: TrainingConfig,
    *,
    worker: Worker | None = None,
    state: Mapping[str, Any] | None = None,
    report: Report = lambda step, split, figures: None,
    save: Save = lambda step, state, held_out: None,
) -> None:
    """Train `objective` (an `nn.Module` that is an `Objective`) in place, from `state` if given.

    With `parallel="fsdp2"` and several workers the objective is left sharded.

    Raises:
        FloatingPointError: too many steps were skipped; the message names the step and the terms.
        ValueError: there are more workers than rows of a batch, less text than a batch, or `state` is another model's.
        infra.errors.DamagedArtifactError: a part of the examples is missing or was changed; the message names it.
    """
    worker = worker or Worker()
    (examples,), (held_out,) = (by_task(objective.tasks, given).values() for given in (examples, held_out))
    if held_out.rows < worker.world_size:
        raise ValueError(
            f"held-out text of {held_out.rows} rows cannot be shared among {worker.world_size} workers; give more text "
            "or use fewer workers"
        )
    run = _Run(objective, config, worker, state)
    source = _step_batches(objective, examples, config, worker, run.progress)
    with Prefetcher(source, config.prefetch_batches) as batches:
        for batch in batches:
            figures = run.step(batch, batches.take_waited_seconds(), report)
            done = run.progress.step
            run.window.add(done, figures)
            if done % config.log_every == 0 or done == config.steps:
                steps, means = run.window.close()
                for one, its_figures in steps:
                    _on_first(worker, report, one, "step", its_figures)
                speed = run.meter.read(lambda values: add_over_ranks(values, worker))
                _on_first(worker, report, done, "train", means | speed)
            # Before the checkpoint: these figures decide whether it is kept.
            if done % config.evaluate_every == 0 or done == config.steps:
                with run.meter.paused():
                    run.progress.held_out = evaluate(objective, held_out, config, worker)
                _on_first(worker, report, done, "held_out", run.progress.held_out)
            if done % config.checkpoint_every == 0 or done == config.steps:
                with run.meter.paused():
                    save(done, run.state(), run.progress.held_out)


@torch.no_grad()
def evaluate(objective: Any, held_out: ExampleStream, config: TrainingConfig, worker: Worker) -> dict[str, float]:
    """Return figures on held-out text, with the same examples, masks and samples at every evaluation.

    The batch is the training batch, or all of the held-out text if there is less; batches end where the text does.
    Under FSDP2 a micro-batch of one row may become one of two: all workers must have equally many.
    """
    objective.eval()
    sums: dict[str, float] = {}
    position = 0
    for number in range(config.held_out_batches):
        batch = read_global_batch(
            held_out, position, size=config.batch_size, tokens=config.batch_tokens, whole_stream=True
        )
        if number > 0 and batch.next_position > held_out.rows:
            break
        position = batch.next_position
        # A seed of its own keeps these masks apart from the masks of training step `number`.
        shared = _Shared.of(
            objective, batch.rows, config, worker, seed=config.seed + 1, step=number,
            equally_many=config.parallel == "fsdp2",
        )  # fmt: skip
        micro_batches = [one.to(worker.device) for one in shared.micro_batches]
        for one, share in zip(micro_batches, _survey(objective, micro_batches, shared.cut, config), strict=True):
            with _autocast(config, worker.device):
                found = objective.metrics(one) if share is None else objective.metrics(one, share)
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + float(value)
    return objective.rates(add_over_ranks(sums, worker))


def add_over_ranks(figures: Mapping[str, float], worker: Worker) -> dict[str, float]:
    """Return named figures, each summed over all workers; every worker must have the same names."""
    values = torch.tensor(list(figures.values()), dtype=torch.float64, device=worker.device)
    return dict(zip(figures, global_sum(values).tolist(), strict=True))


class _Shared(NamedTuple):
    """One worker's share of a global batch."""

    micro_batches: list[Any]
    cut: bool
    """True if any worker's share is cut into several micro-batches: then every worker treats its share as cut."""

    @classmethod
    def of(
        cls,
        objective: Any,
        rows: Sequence[Any],
        config: TrainingConfig,
        worker: Worker,
        *,
        seed: int,
        step: int,
        equally_many: bool = False,
    ) -> _Shared:
        lengths = [len(row.input_ids) for row in rows]
        shares = share_out(lengths, worker.world_size, config.micro_batch_size, equally_many=equally_many)
        if config.parallel == "fsdp2" and len({len(share) for share in shares}) > 1:
            raise ValueError(
                f"{len(rows)} rows in micro-batches of {config.micro_batch_size} give {worker.world_size} workers "
                "unequal numbers of them, which fsdp2 cannot share; make training.batch_size a multiple of the "
                "workers, or raise training.micro_batch_size"
            )
        micro_batches = [
            objective.collate([rows[index] for index in share], seed=seed, step=step, row_indices=share)
            for share in shares[worker.rank]
        ]
        return cls(micro_batches, max(len(share) for share in shares) > 1)


class _StepBatch(NamedTuple):
    """Everything that the background prepares for a step."""

    shared: _Shared
    next_position: int


def _step_batches(
    objective: Any, examples: ExampleStream, config: TrainingConfig, worker: Worker, progress: Progress
) -> Iterator[_StepBatch]:
    """Yield the batches of all steps still to do, masked and packed, on the CPU."""
    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # of the background thread, which would pin memory for the first GPU
    position = progress.position
    for step in range(progress.step, config.steps):
        batch = read_global_batch(
            examples,
            position,
            size=config.batch_size,
            tokens=config.batch_tokens,
            longest=config.longest_row(step),
        )
        position = batch.next_position
        shared = _Shared.of(objective, batch.rows, config, worker, seed=config.seed, step=step)
        if worker.device.type == "cuda":
            shared = shared._replace(micro_batches=[one.pin_memory() for one in shared.micro_batches])
        yield _StepBatch(shared, position)


class _Run:
    """A model, its optimiser, and their progress."""

    def __init__(self, objective: Any, config: TrainingConfig, worker: Worker, state: Mapping[str, Any] | None) -> None:
        self._objective, self._config, self._worker = objective.to(worker.device), config, worker
        self._model = parallelise(objective, config.parallel, worker.device)
        self._optimizer = make_optimizer(
            objective,
            lr=config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            weight_decay=config.weight_decay,
        )
        self._guard = SpikeGuard(config.spike_factor, config.max_skipped)
        self.progress = restore(objective, self._optimizer, state)
        if self.progress.skipped is not None:
            self._guard.resume(self.progress.skipped)
        self.window = StepWindow(self.progress.window)
        self.meter = Meter(worker.device, config.precision)

    def step(self, batch: _StepBatch, waited_seconds: float, report: Report) -> dict[str, float]:
        """Take the next step, or skip it if its loss or gradient is bad; return its figures."""
        config, step = self._config, self.progress.step
        self._objective.train()
        rate = learning_rate_at(
            step, peak=config.learning_rate, warmup_steps=config.warmup_steps, total_steps=config.steps
        )
        set_learning_rate(self._optimizer, rate)
        micro_batches = [one.to(self._worker.device) for one in batch.shared.micro_batches]
        values = self._accumulate(micro_batches, batch.shared.cut)
        norm = clip_gradients(self._objective, config.clip_norm)
        means = _global_means(values | {"gradient_norm": norm}, self._worker)
        norm_value = means.pop("gradient_norm")
        figures = self._objective.step_figures(means) | {"gradient_norm": norm_value, "learning_rate": rate}
        # All ranks see the same sums, so all take the step or none does.
        objection = self._guard.objection(figures["loss"], norm_value)
        self.progress.step, self.progress.position = step + 1, batch.next_position
        if objection is None:
            self._optimizer.step()
        else:
            _on_first(self._worker, report, step + 1, "skipped", figures)
            self._guard.skip(step + 1, objection, figures)
        self._optimizer.zero_grad(set_to_none=True)
        self._count(micro_batches, waited_seconds)
        return figures | {"skipped_steps": float(len(self._guard.skipped))}

    def state(self) -> dict[str, Any] | None:
        """Return the run's state for its checkpoint; None on all workers but the first. Every worker must call it."""
        self.progress.skipped, self.progress.window = self._guard.state(), self.window.state()
        return snapshot(self._objective, self._optimizer, self.progress, keep=self._worker.rank == 0)

    def _accumulate(self, micro_batches: Sequence[Any], cut: bool) -> dict[str, Tensor]:
        """Compute the gradients of the global batch's loss; return its values, this worker's share of them."""
        added: dict[str, Tensor] = {}
        shares = _survey(self._objective, micro_batches, cut, self._config)
        for number, (batch, share) in enumerate(zip(micro_batches, shares, strict=True), start=1):
            with without_averaging(self._model, number < len(micro_batches)):
                with _autocast(self._config, self._worker.device):
                    values = self._model(batch) if share is None else self._model(batch, share)
                values["loss"].backward()
            for name, value in values.items():
                added[name] = added[name] + value.detach() if name in added else value.detach()
        return added

    def _count(self, micro_batches: Sequence[Any], waited_seconds: float) -> None:
        self.meter.add(
            tokens=sum(batch.tokens for batch in micro_batches),
            sequences=sum(batch.sequences for batch in micro_batches),
            flops=sum(self._objective.flops(batch) for batch in micro_batches),
            waited_seconds=waited_seconds,
        )


def _survey(objective: Any, micro_batches: Sequence[Any], cut: bool, config: TrainingConfig) -> Sequence[Any]:
    """What each micro-batch must know about the others; None if the batch is not cut."""
    if not cut:
        return [None] * len(micro_batches)
    # A context of its own: for as long as it lasts, autocast remembers weights that were cast without a graph.
    with _autocast(config, micro_batches[0].input_ids.device):
        return objective.survey(micro_batches)


def _autocast(config: TrainingConfig, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bf16")


def _global_means(values: Mapping[str, Tensor], worker: Worker) -> dict[str, float]:
    """Means over workers: each worker's value is its share times their number, so the mean is the global batch's."""
    own = torch.stack([value.detach().double() for value in values.values()])
    return dict(zip(values, (global_sum(own) / worker.world_size).tolist(), strict=True))


def _on_first(worker: Worker, report: Report, step: int, split: str, figures: Mapping[str, float]) -> None:
    if worker.rank == 0:
        report(step, split, figures)
