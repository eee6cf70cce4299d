"""Training loop: plain torch, the same on one process and on many, resumable at any step.

Every random choice of a step (its task, masks, dropout, samples) is a function of the seed and the step, and the rows
of a batch follow from a position in the task's stream, so a checkpoint (models/training/checkpoint.py) holds no
generator. The global batch is the same for any number of workers and of micro-batches. The loop knows neither Ray nor
Prefect: it is given a worker's place among the workers, and callbacks that save and report.

Parameters that a step's task does not use have no gradient in that step, and AdamW leaves them and their moments alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from models.distributed import global_sum
from models.training.budget import CpuMeter, passed, share_done
from models.training.checkpoint import CHECKPOINT_FILE, load_state, restore, save_state, snapshot
from models.training.config import COSTS, TrainingConfig, training_config
from models.training.global_batch import read_global_batch
from models.training.meter import Meter
from models.training.optimisation import (
    clip_gradients,
    learning_rate_at,
    learning_rate_left,
    make_optimizer,
    set_learning_rate,
)
from models.training.parallel import parallelise, without_averaging
from models.training.prefetch import Prefetcher
from models.training.reader import ExampleStream
from models.training.spikes import SpikeGuard
from models.training.step_batches import Shared, StepBatch, step_batches
from models.training.step_window import StepWindow
from models.training.streams import Streams, by_task, described
from models.training.tasks import figures_of_task, joined
from models.training.worker import Worker, add_over_ranks

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

    An objective with several tasks has a stream for each, by name, to train on and to be evaluated on.

    With `parallel="fsdp2"` and several workers the objective is left sharded.

    Raises:
        FloatingPointError: too many steps were skipped; the message names the step and the terms.
        ValueError: there are more workers than rows of a batch, fewer rows than a batch, or `state` is another model's
            or of other streams.
        infra.errors.DamagedArtifactError: a part of the examples is missing or was changed; the message names it.
    """
    worker = worker or Worker()
    streams, held_out = by_task(objective.tasks, examples), by_task(objective.tasks, held_out)
    _check_held_out(held_out, worker)
    run = _Run(objective, config, worker, state, streams)
    if run.share >= 1.0:  # killed after its last checkpoint
        return
    source = step_batches(
        objective, streams, config, worker, first_step=run.progress.step, positions=run.progress.positions
    )
    with Prefetcher(source, config.prefetch_batches) as batches:
        for batch in batches:
            before = run.share
            figures = run.step(batch, batches.take_waited_seconds(), report)
            done, is_last = run.progress.step, run.share >= 1.0
            run.window.add(done, figures)
            if done % config.log_every == 0 or is_last:
                steps, means = run.window.close()
                for one, its_figures in steps:
                    _on_first(worker, report, one, "step", its_figures)
                speed = run.meter.read(lambda values: add_over_ranks(values, worker))
                _on_first(worker, report, done, "train", means | speed | run.cost())
            # Before the checkpoint: these figures decide whether it is kept.
            is_milestone = passed(config.milestones, before, run.share)
            if done % config.evaluate_every == 0 or is_milestone or is_last:
                with run.paused():
                    run.progress.held_out = evaluate(objective, held_out, config, worker)
                _on_first(worker, report, done, "held_out", run.progress.held_out | run.cost())
            if done % config.checkpoint_every == 0 or is_milestone or is_last:
                with run.paused():
                    save(done, run.state(), run.progress.held_out)
            if is_last:
                break


@torch.no_grad()
def evaluate(objective: Any, held_out: Streams, config: TrainingConfig, worker: Worker) -> dict[str, float]:
    """Return figures on held-out rows, with the same rows, masks and samples at every evaluation.

    Each task is evaluated on its own rows; `joined` says what their figures make together. The batch is the training
    batch, or all of the held-out rows if there are fewer; batches end where the rows do. Under FSDP2 a micro-batch of
    one row may become one of two: all workers must have equally many.
    """
    objective.eval()
    streams = by_task(objective.tasks, held_out)
    return joined(
        {
            task: objective.rates(_held_out_sums(objective, task, stream, config, worker))
            for task, stream in streams.items()
        }
    )


def _held_out_sums(
    objective: Any, task: str, held_out: ExampleStream, config: TrainingConfig, worker: Worker
) -> dict[str, float]:
    """Add up a task's `metrics` over its held-out rows and over all workers."""
    settings = config.batch_of(task)
    sums: dict[str, float] = {}
    position = 0
    for number in range(config.held_out_batches):
        batch = read_global_batch(
            held_out,
            position,
            size=settings.batch_size,
            tokens=settings.batch_tokens,
            longest=settings.longest,
            whole_stream=True,
        )
        if number > 0 and batch.next_position > held_out.rows:
            break
        position = batch.next_position
        # A seed of its own keeps these masks apart from the masks of training step `number`.
        shared = Shared.of(
            objective, task, batch.rows, config, worker, seed=config.seed + 1, step=number,
            equally_many=config.parallel == "fsdp2",
        )  # fmt: skip
        micro_batches = [one.to(worker.device) for one in shared.micro_batches]
        for one, share in zip(micro_batches, _survey(objective, micro_batches, shared.cut, config), strict=True):
            with _autocast(config, worker.device):
                found = objective.metrics(one) if share is None else objective.metrics(one, share)
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + float(value)
    return add_over_ranks(sums, worker)


class _Run:
    """A model, its optimiser, and their progress."""

    def __init__(
        self,
        objective: Any,
        config: TrainingConfig,
        worker: Worker,
        state: Mapping[str, Any] | None,
        streams: Mapping[str, ExampleStream],
    ) -> None:
        self._objective, self._config, self._worker = objective.to(worker.device), config, worker
        self._model = parallelise(objective, config.parallel, worker.device)
        self._optimizer = make_optimizer(
            objective,
            lr=config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            weight_decay=config.weight_decay,
        )
        if config.cpu_seconds is not None and worker.device.type == "cuda":
            raise ValueError(
                "training.cpu_seconds is a budget for training on CPUs: a GPU's work is not in it. Leave it out and "
                "set training.flops or training.steps."
            )
        self._tasks = [task.name for task in objective.tasks]
        self._guards = {task: SpikeGuard(config.spike_factor, config.max_skipped) for task in self._tasks}
        self._streams = described(objective.tasks, streams)
        self.progress = restore(objective, self._optimizer, state, self._streams)
        for task, guard in self._guards.items():
            if task in self.progress.skipped:
                guard.resume(self.progress.skipped[task])
        self.window = StepWindow(self.progress.window)
        self.meter = Meter(worker.device, config.precision, self._tasks)
        # An equal part for each: the workers of a resumed run may be more or fewer than those that spent the seconds.
        self._cpu = CpuMeter(self.progress.cpu_seconds / worker.world_size)

    @property
    def share(self) -> float:
        """Share of the run that is done."""
        config = self._config
        progress = self.progress
        costs = ((getattr(progress, name), getattr(config, name)) for name in COSTS)
        return share_done(progress.step, config.steps, *costs)

    def cost(self) -> dict[str, float]:
        """Return what the run has spent so far of its budget; nothing if there is none."""
        return {name: getattr(self.progress, name) for name in COSTS if getattr(self._config, name) is not None}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Count neither time nor CPU seconds of the block."""
        with self.meter.paused(), self._cpu.paused():
            yield

    def step(self, batch: StepBatch, waited_seconds: float, report: Report) -> dict[str, float]:
        """Take the next step, or skip it if its loss or gradient is bad; return its figures."""
        config, step = self._config, self.progress.step
        self._objective.train()
        rate = self._rate(step)
        set_learning_rate(self._optimizer, rate)
        micro_batches = [one.to(self._worker.device) for one in batch.shared.micro_batches]
        values = self._accumulate(micro_batches, batch.shared.cut)
        norm = clip_gradients(self._objective, config.clip_norm)
        flops = sum(self._objective.flops(one) for one in micro_batches)
        spent = {
            name: torch.tensor(value, dtype=torch.float64, device=norm.device)
            for name, value in (("cpu_seconds", self._cpu.read()), ("flops", flops))
        }
        means = _global_means(values | {"gradient_norm": norm} | spent, self._worker)
        norm_value = means.pop("gradient_norm")
        self.progress.cpu_seconds = means.pop("cpu_seconds") * self._worker.world_size
        self.progress.flops += means.pop("flops") * self._worker.world_size
        figures = self._objective.step_figures(means) | {"gradient_norm": norm_value, "learning_rate": rate}
        # All ranks see the same sums, so all take the step or none does. A task's losses are compared with its own.
        guard = self._guards[batch.task]
        objection = guard.objection(figures["loss"], norm_value)
        if len(self._tasks) > 1:
            figures = figures_of_task(figures, batch.task)
        if batch.dropped_spans is not None:
            figures["dropped_mentions"] = float(batch.dropped_spans)
        self.progress.step, self.progress.positions[batch.task] = step + 1, batch.next_position
        if objection is None:
            self._optimizer.step()
        else:
            _on_first(self._worker, report, step + 1, "skipped", figures)
            guard.skip(step + 1, objection, figures)
        self._optimizer.zero_grad(set_to_none=True)
        self._count(batch.task, micro_batches, flops, waited_seconds)
        return figures | {"skipped_steps": float(sum(len(one.skipped) for one in self._guards.values()))}

    def _rate(self, step: int) -> float:
        """Return the learning rate of a step, by its number or, in a run with a budget, by what is left of that."""
        config = self._config
        if all(getattr(config, name) is None for name in COSTS):
            return learning_rate_at(
                step, peak=config.learning_rate, warmup_steps=config.warmup_steps, total_steps=config.steps
            )
        return learning_rate_left(
            step, peak=config.learning_rate, warmup_steps=config.warmup_steps, left=1.0 - self.share
        )

    def state(self) -> dict[str, Any] | None:
        """Return the run's state for its checkpoint; None on all workers but the first. Every worker must call it."""
        self.progress.skipped = {task: guard.state() for task, guard in self._guards.items()}
        self.progress.window = self.window.state()
        return snapshot(self._objective, self._optimizer, self.progress, self._streams, keep=self._worker.rank == 0)

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

    def _count(self, task: str, micro_batches: Sequence[Any], flops: float, waited_seconds: float) -> None:
        self.meter.add(
            task,
            tokens=sum(batch.tokens for batch in micro_batches),
            sequences=sum(batch.sequences for batch in micro_batches),
            flops=flops,
            waited_seconds=waited_seconds,
        )


def _check_held_out(held_out: Mapping[str, ExampleStream], worker: Worker) -> None:
    for task, stream in held_out.items():
        if stream.rows < worker.world_size:
            of = f" of task {task}" if len(held_out) > 1 else ""
            raise ValueError(
                f"held-out text{of} of {stream.rows} rows cannot be shared among {worker.world_size} workers; give "
                "more text or use fewer workers"
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
