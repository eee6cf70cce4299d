"""Fine-tuning of a task model: the recipe of eHealth's Tables 8 and 9, on one device.

Every random choice is a function of (seed, epoch) or (seed, step): the same model, examples and configuration give the
same weights, on the CPU bit for bit, whether a run is uninterrupted or killed and resumed at the end of an epoch.
Batches are drawn at random, whatever their examples' lengths: the encoder runs unpadded, so grouping similar lengths
gains nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.ema import ExponentialMovingAverage
from models.encoder.network import parameters_without_decay
from models.encoder.randomness import seed_device, uniforms
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from models.inference import autocast
from models.training.optimisation import clip_gradients, learning_rate_at

ORDER_STREAM = 1002
"""Purpose of the draws that order an epoch (see `models.heads.batch.DROPOUT_STREAM`)."""


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Settings of eHealth's Table 8; the first three are tuned per task (Table 9).

    Raises ValueError naming the field.
    """

    epochs: int
    batch_size: int
    """Examples in a batch; the last batch of an epoch may hold fewer."""
    learning_rate: float
    """Peak of the schedule."""
    head_learning_rate: float | None = None
    """Peak for everything but the encoder; None: the same."""
    warmup_ratio: float = 0.1
    """Share of all steps in which the rate rises; it then falls linearly to 0."""
    adam_epsilon: float = 1e-8
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    """Maximum norm of the gradient (ELECTRA)."""
    ema_decay: float | None = 0.9999
    """Decay of the averaged weights, which are evaluated and kept; None: use the weights themselves."""
    ema_warmup: bool = True
    """Let the decay rise to its value (models/ema.py); False is the paper's plain form."""
    seed: int = 42
    evaluations_per_epoch: int = 1
    patience: int | None = None
    """Number of evaluations without a better score before training stops; None: never."""
    precision: str = "fp32"
    """`fp32`, or `bf16` for matrix products in bfloat16."""
    log_every: int = 10
    """Steps between two reports of the training loss."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "evaluations_per_epoch", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}; it must be at least 1, or None")
        for name in ("learning_rate", "head_learning_rate", "clip_norm", "adam_epsilon"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} is {value}; it must be positive")
        if not 0.0 <= self.warmup_ratio < 1.0:
            raise ValueError(f"warmup_ratio is {self.warmup_ratio}; it must be in [0, 1)")
        if self.precision not in ("fp32", "bf16"):
            raise ValueError(f"precision must be fp32 or bf16, got {self.precision!r}")


@dataclass(frozen=True)
class DevPoint:
    """One evaluation."""

    step: int
    """Number of steps done."""
    epoch: float
    """Number of epochs done."""
    score: float
    train_loss: float
    """Mean over the steps since the previous evaluation."""


@dataclass(frozen=True)
class FinetuneResult:
    """Outcome of a run. The model itself has the best weights, or the last ones if nothing was evaluated."""

    steps: int
    """Number of steps done."""
    stopped: str
    """`finished`, `patience` (no better score for that long) or `asked` (`should_stop` returned True)."""
    seconds: float
    """Seconds of training alone, without evaluations."""
    sequences_per_second: float
    """Training examples per second."""
    curve: tuple[DevPoint, ...] = ()
    best: DevPoint | None = None
    """Evaluation with the highest score, the first of equals; None without evaluations."""


Evaluate = Callable[[TaskModel], float]
"""Function that returns the dev score of the model as it is now; higher is better."""
Report = Callable[[int, str, Mapping[str, float]], None]
"""Callback that takes the number of steps done, the split (`train` or `dev`) and figures by name."""
State = Mapping[str, Any]
"""State of a run at the end of an epoch: tensors and plain values only, as `torch.load(..., weights_only=True)` allows.
The tensors are the run's own, so write them before the next step. Size: five times the model, for weights, two moments,
average and best weights.
"""

STATE_FORMAT = 1
"""Version of the format, raised whenever the meaning of a state changes."""


def finetune(
    model: TaskModel,
    train: Sequence[HeadExample],
    config: FinetuneConfig,
    *,
    evaluate: Evaluate | None = None,
    report: Report = lambda step, split, figures: None,
    should_stop: Callable[[], bool] = lambda: False,
    save: Callable[[State], None] | None = None,
    resume: State | None = None,
) -> FinetuneResult:
    """Train `model` in place, on its device, and leave it in eval mode with its best weights.

    AdamW without decay on biases and norms, linear warm-up and decay, clipped gradients, averaged weights. With
    `evaluate`, the dev score of the averaged weights is computed `evaluations_per_epoch` times per epoch and at the
    end; the best weights are kept in CPU memory. `should_stop` is called after every step.

    `save` receives the run's state at the end of every epoch but the last. A run with the same model, examples and
    configuration resumes from such a state, given as `resume`, and ends as if it had never been interrupted. The run
    takes over the state's tensors. A state holds no generator, as all randomness is a function of seed and step.

    Raises:
        ValueError: there are no examples, an example (named by its number) has no target or does not fit the model, or
            the state is of another model, configuration, number of examples or version of this program.
        FloatingPointError: the loss is not a finite number; the message names the step.
    """
    model.check(train)
    unlabelled = next((number for number, example in enumerate(train) if example.target is None), None)
    if unlabelled is not None:
        raise ValueError(f"example {unlabelled} has no target; training needs one for every example")
    run = _Run(model, len(train), config, evaluate, report)
    if resume is not None:
        run.load_state(resume)
    stopped = "finished"
    for step, rows in islice(enumerate(_batches(len(train), config)), run.done, None):
        run.step(step, [train[row] for row in rows])
        if run.evaluation_due(step + 1):
            run.evaluate(step + 1)
        if run.out_of_patience():
            stopped = "patience"
            break
        if should_stop():
            stopped = "asked"
            break
        if save is not None and run.between_epochs():
            save(run.state())
    return run.finish(stopped)


class _Run:
    """State of one run: optimiser, averages, curve and clock."""

    def __init__(
        self, model: TaskModel, examples: int, config: FinetuneConfig, evaluate: Evaluate | None, report: Report
    ) -> None:
        self.model, self.config, self.report = model, config, report
        self.examples = examples
        self.score_of = evaluate
        self.device = next(model.parameters()).device
        self.steps_per_epoch = math.ceil(examples / config.batch_size)
        self.total = config.epochs * self.steps_per_epoch
        self.optimizer = _make_optimizer(model, config)
        self.average = (
            ExponentialMovingAverage(model, config.ema_decay, config.ema_warmup)
            if config.ema_decay is not None
            else None
        )
        self.curve: list[DevPoint] = []
        self.best: DevPoint | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.done = 0
        self.sequences = 0
        self.seconds = 0.0
        self.since_report = _Means()
        self.since_evaluation = _Means()
        model.train()

    def step(self, step: int, examples: Sequence[HeadExample]) -> None:
        """Take one step of the optimiser."""
        began = time.perf_counter()
        rate = self._set_rates(step)
        if self.device.type == "cuda":
            seed_device(self.device, self.config.seed, step, 0)
        batch = self.model.collate(examples, seed=self.config.seed, step=step).to(self.device)
        with autocast(self.device, self.config.precision):
            losses = self.model(batch)
        losses["loss"].backward()
        norm = clip_gradients(self.model, self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update()
        self.done, self.sequences = step + 1, self.sequences + len(examples)
        self.since_report.add({**losses, "gradient_norm": norm})
        self.since_evaluation.add({"loss": losses["loss"]})
        self.seconds += time.perf_counter() - began
        if self.done % self.config.log_every == 0 or self.done == self.total:
            figures = self._finite(self.since_report.read())
            figures |= {"learning_rate": rate, "epoch": self.done / self.steps_per_epoch}
            self.report(self.done, "train", figures | {"sequences_per_second": self._speed()})

    def evaluation_due(self, done: int) -> bool:
        """Return True if the dev score is due after `done` steps."""
        if self.score_of is None:
            return False
        parts = self.config.evaluations_per_epoch
        within = (done - 1) % self.steps_per_epoch + 1  # 1 to steps_per_epoch
        return within * parts // self.steps_per_epoch > (within - 1) * parts // self.steps_per_epoch

    def evaluate(self, done: int) -> None:
        """Score the averaged weights, and keep them if they are the best so far."""
        assert self.score_of is not None
        train_loss = self._finite(self.since_evaluation.read())["loss"]
        self._swap_in()
        self.model.eval()
        score = float(self.score_of(self.model))
        point = DevPoint(done, done / self.steps_per_epoch, score, train_loss)
        self.curve.append(point)
        if self.best is None or score > self.best.score:
            self.best = point
            self.best_weights = {name: _to_cpu(value) for name, value in self.model.state_dict().items()}
        self._swap_out()
        self.model.train()
        self.report(done, "dev", {"score": score, "best_score": self.best.score, "epoch": point.epoch})

    def out_of_patience(self) -> bool:
        """Return True if the last `patience` evaluations brought nothing better."""
        if self.config.patience is None or self.best is None:
            return False
        return len(self.curve) - 1 - self.curve.index(self.best) >= self.config.patience

    def between_epochs(self) -> bool:
        """Return True if an epoch has just ended and another follows."""
        return self.done % self.steps_per_epoch == 0 and self.done < self.total

    def state(self) -> State:
        """Return everything that the steps so far have produced."""
        return {
            "format": STATE_FORMAT,
            "identity": self._identity(),
            "done": self.done,
            "sequences": self.sequences,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "curve": [astuple(point) for point in self.curve],
            "best": None if self.best is None else self.curve.index(self.best),
            "best_weights": self.best_weights,
            "since_report": (self.since_report.sums, self.since_report.count),
            "since_evaluation": (self.since_evaluation.sums, self.since_evaluation.count),
        }

    def load_state(self, state: State) -> None:
        """Resume from `state`."""
        if state.get("format") != STATE_FORMAT or state["identity"] != self._identity():
            raise ValueError(
                "the state belongs to a run with another model, configuration or number of examples, or to another "
                "version of this program; resume with those, or start over without it"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.done, self.sequences, self.seconds = state["done"], state["sequences"], state["seconds"]
        self.curve = [DevPoint(*point) for point in state["curve"]]
        self.best = None if state["best"] is None else self.curve[state["best"]]
        self.best_weights = state["best_weights"]
        self.since_report, self.since_evaluation = (
            _Means({key: value.to(self.device) for key, value in sums.items()}, count)
            for sums, count in (state["since_report"], state["since_evaluation"])
        )

    def _identity(self) -> dict[str, Any]:
        """What a state must share with the run that resumes from it, besides the examples themselves."""
        shapes = {name: tuple(value.shape) for name, value in self.model.state_dict().items()}
        return {"config": asdict(self.config), "examples": self.examples, "shapes": shapes}

    def finish(self, stopped: str) -> FinetuneResult:
        """Give the model its final weights and return the outcome."""
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        else:
            self._swap_in()
        self.model.eval()
        return FinetuneResult(self.done, stopped, self.seconds, self._speed(), tuple(self.curve), self.best)

    def _set_rates(self, step: int) -> float:
        config = self.config
        warmup = int(config.warmup_ratio * self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(step, peak=group["peak"], warmup_steps=warmup, total_steps=self.total)
        return learning_rate_at(step, peak=config.learning_rate, warmup_steps=warmup, total_steps=self.total)

    def _finite(self, figures: dict[str, float]) -> dict[str, float]:
        if not math.isfinite(figures["loss"]):
            raise FloatingPointError(
                f"within the steps up to {self.done} the loss became {figures['loss']}; lower learning_rate "
                f"({self.config.learning_rate}) or use another seed"
            )
        return figures

    def _speed(self) -> float:
        return self.sequences / self.seconds if self.seconds else 0.0

    def _swap_in(self) -> None:
        if self.average is not None:
            self.average.apply()

    def _swap_out(self) -> None:
        if self.average is not None:
            self.average.restore()


@dataclass
class _Means:
    """Running means of tensors by name; the device is synchronised only at `read`."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0

    def add(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            value = value.detach()
            # clone: `add` must not keep the loss itself, which the caller may still change.
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()
        self.count += 1

    def read(self) -> dict[str, float]:
        """Return the means since the last reading."""
        means = {name: float(value) / self.count for name, value in self.sums.items()}
        self.sums, self.count = {}, 0
        return means


def _batches(examples: int, config: FinetuneConfig) -> Iterator[np.ndarray]:
    """Yield the row numbers of every batch: each epoch is a permutation of its own, cut into batches."""
    for epoch in range(config.epochs):
        order = np.argsort(uniforms(config.seed, epoch, 0, ORDER_STREAM, np.arange(examples)), kind="stable")
        for first in range(0, examples, config.batch_size):
            yield order[first : first + config.batch_size]


def _make_optimizer(model: TaskModel, config: FinetuneConfig) -> torch.optim.AdamW:
    """AdamW over four groups: encoder or head, with or without decay; each holds its `peak` rate."""
    spared = parameters_without_decay(model)
    groups: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((name.startswith("encoder."), name in spared), []).append(parameter)
    head_rate = config.head_learning_rate or config.learning_rate
    settings: list[dict[str, Any]] = [
        {
            "params": parameters,
            "weight_decay": 0.0 if without_decay else config.weight_decay,
            "peak": config.learning_rate if of_encoder else head_rate,
        }
        for (of_encoder, without_decay), parameters in groups.items()
    ]
    betas = (config.adam_beta1, config.adam_beta2)
    return torch.optim.AdamW(settings, lr=config.learning_rate, betas=betas, eps=config.adam_epsilon, fused=True)


def _to_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)
