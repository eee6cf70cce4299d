"""Settings of a training run: how long, how fast, how large, how often."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from models.training.field_types import check_types, with_integers

PRECISIONS = ("fp32", "bf16")
PARALLEL = ("ddp", "fsdp2")
SPEED_ONLY = frozenset({"micro_batch_size", "parallel", "prefetch_batches"})
"""Settings that change only speed, memory and rounding: a run may resume with other values."""
COSTS = ("cpu_seconds", "flops")
"""Settings that may be a budget; a run's progress has what it spent of each under the same name."""
CHECKPOINT_FILE = "state.pt"
"""Name of the file with the state of a run (`models.training.checkpoint`)."""
LARGEST_SEED = 2**63
"""Upper limit of seeds, exclusive: hashes and generators take 64 bits."""


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Batches of one of several tasks, where they differ from those of the run."""

    batch_size: int | None = None
    """As in the run's settings. If both are None, the task's batches are as large as the run's."""
    batch_tokens: int | None = None
    longest: int | None = None
    """Tokens to which the task's rows are cut, between words. None: they are not cut."""

    def check(self, where: str) -> None:
        """Check the values; `where` is the section's name with a dot. Raises ValueError naming the field."""
        check_types(self, where)
        if self.batch_size is not None and self.batch_tokens is not None:
            raise ValueError(f"{where}batch_size and {where}batch_tokens are both given; give one")
        for name, least in (("batch_size", 1), ("batch_tokens", 1), ("longest", 3)):  # [CLS], a token and [SEP]
            if getattr(self, name) is not None:
                _at_least(self, name, least, where)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of the training loop; the values of eHealth's Table 7 where a field names no other source.

    Raises ValueError naming the field and what it must be.
    """

    steps: int
    """Number of optimiser steps; with `cpu_seconds` or `flops`, the most."""
    cpu_seconds: float | None = None
    """Budget in CPU seconds of the training processes together, on machines without GPUs; None: all steps. What counts
    is the CPU time of every thread while training, on all workers: neither evaluation nor saving, nor work that a kill
    has lost. A checkpoint records it, so that a resumed run continues to count. After warm-up the learning rate falls
    with the share of the budget. So two runs differ by what the machine did, but a comparison by cost is fair.
    """
    flops: float | None = None
    """Budget in model FLOPs, on CPUs or GPUs; None: all steps. What counts is the arithmetic that the objective needs
    for its batches, by its own formula, and not what a device does: recomputed or padded values cost nothing. After
    warm-up the learning rate falls with the share of the budget. Equal settings and rows give equal steps.
    """
    milestones: tuple[float, ...] = ()
    """Shares of the run, between 0 and 1, after which a checkpoint is kept beside the newest and the best: of the
    budget if there is one, else of the steps.
    """
    batch_size: int | None = None
    """Sequences in the global batch, over all workers and micro-batches."""
    batch_tokens: int | None = None
    """Tokens in the global batch, in place of `batch_size`; each row counts once. A batch is the longest run of rows
    with no more tokens, so the number of sequences varies while the work of a step hardly does.
    """
    micro_batch_size: int | None = None
    """Maximum number of sequences that a worker computes at once; its share of the global batch is cut into
    micro-batches whose gradients add up. None: as many as fit a GPU by the formula of models/training/memory.py; on a
    CPU the share is not cut.
    """
    learning_rate: float
    """Peak of the schedule."""
    warmup_steps: int
    """Steps of linear warm-up; the rate then falls linearly to 0."""
    length_warmup_steps: int = 0
    """Number of first steps in which rows are cut to `length_warmup_tokens`, between words; the rest of a row is not
    seen in those steps. A pair of sentences is cut at its outer ends. 0: none (Li et al., "The stability-efficiency
    dilemma", NeurIPS 2022).
    """
    length_warmup_tokens: int = 128
    """Tokens that are left of a row in the first `length_warmup_steps` steps."""
    adam_epsilon: float = 1e-6
    """Addend to the root of AdamW's second moment."""
    adam_beta1: float = 0.9
    """Decay of AdamW's first moment."""
    adam_beta2: float = 0.999
    """Decay of AdamW's second moment."""
    weight_decay: float = 0.01
    """Decay of weights per step, as a factor of the learning rate; biases and norms have none."""
    clip_norm: float = 1.0
    """Maximum norm of the gradient (ELECTRA)."""
    precision: str = "fp32"
    """fp32, or bf16: autocast, with weights, optimiser, softmax, losses and sampling in float32."""
    parallel: str = "ddp"
    """Distribution of the model over workers: ddp (each holds all of it) or fsdp2 (weights, gradients and optimiser
    state are sharded, layer by layer).
    """
    deterministic: bool | None = None
    """Use only kernels that give the same bits every time (torch.use_deterministic_algorithms; on a GPU with
    CUBLAS_WORKSPACE_CONFIG, and slower). An operation without such a kernel ends the run. None: true on a CPU, where it
    costs nothing, and false on a GPU. Equal bits on a GPU also need equal GPUs, workers and micro-batches.
    """
    spike_factor: float | None = None
    """Multiple of the median of the last 100 losses above which a step is skipped. None: skip only steps whose loss or
    gradient is not finite.
    """
    max_skipped: int = 10
    """Number of steps among the last 100 that may be skipped; one more ends the run."""
    prefetch_batches: int = 4
    """Number of batches masked and packed ahead, in the background."""
    seed: int = 42
    """Seed of initial weights, the order of rows, dropout and masks."""
    log_every: int = 10
    """Steps between two entries of the curves. An entry holds the means of the steps since the last one; the figures of
    every single step are kept beside them.
    """
    evaluate_every: int = 200
    """Steps between two evaluations on held-out text; the last step is always evaluated."""
    held_out_batches: int = 4
    """Number of batches of held-out text per evaluation."""
    checkpoint_every: int = 200
    """Steps between two checkpoints; the last step is always saved."""
    tasks: Mapping[str, TaskConfig] = field(default_factory=dict)
    """Settings of single tasks, by name, for objectives with several: `[training.tasks.pap]` in a preset."""

    def __post_init__(self) -> None:
        check_types(self, "training.", but={"tasks", "milestones"})
        object.__setattr__(self, "milestones", _shares(self.milestones))
        object.__setattr__(self, "tasks", _task_configs(self.tasks))
        self._check_batch()
        for name in (
            "steps",
            "prefetch_batches",
            "log_every",
            "evaluate_every",
            "held_out_batches",
            "checkpoint_every",
        ):
            _at_least(self, name, 1)
        for name in ("max_skipped", "length_warmup_steps", "weight_decay", "seed"):
            _at_least(self, name, 0)
        _at_least(self, "length_warmup_tokens", 3)  # [CLS], a token and [SEP]
        if self.seed >= LARGEST_SEED:
            raise ValueError(f"training.seed is {self.seed}; it must be under 2 to the power of 63")
        for name in COSTS:
            if getattr(self, name) is not None and not getattr(self, name) > 0.0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be over 0, or left out")
        if self.cpu_seconds is not None and self.flops is not None:
            raise ValueError("training.cpu_seconds and training.flops are both given; give one")
        for name in ("learning_rate", "adam_epsilon", "clip_norm"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be over 0")
        for name in ("adam_beta1", "adam_beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; it must be at least 0 and under 1")
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"training.warmup_steps ({self.warmup_steps}) must be at least 0 and under training.steps "
                f"({self.steps}), or the learning rate never reaches its peak: give training.warmup_steps too"
            )
        if self.spike_factor is not None and not self.spike_factor > 1.0:
            raise ValueError(f"training.spike_factor is {self.spike_factor}; it must be over 1, or left out")
        for name, known in (("precision", PRECISIONS), ("parallel", PARALLEL)):
            if getattr(self, name) not in known:
                raise ValueError(f"training.{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")

    def _check_batch(self) -> None:
        if (self.batch_size is None) == (self.batch_tokens is None):
            raise ValueError("training needs either batch_size (sequences) or batch_tokens (tokens), not both")
        for name in ("batch_size", "batch_tokens", "micro_batch_size"):
            if getattr(self, name) is not None:
                _at_least(self, name, 1)

    def batch_of(self, task: str) -> TaskConfig:
        """Return the batches of a task: its own settings, or those of the run where it has none."""
        own = self.tasks.get(task, TaskConfig())
        if own.batch_size is None and own.batch_tokens is None:
            return replace(own, batch_size=self.batch_size, batch_tokens=self.batch_tokens)
        return own

    def longest_row(self, step: int, task: str) -> int | None:
        """Return the tokens to which a task's rows of `step` (from 0) are cut; None: they are not cut."""
        own = self.batch_of(task).longest
        if step >= self.length_warmup_steps:
            return own
        return self.length_warmup_tokens if own is None else min(own, self.length_warmup_tokens)


def training_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """Return the configuration from a mapping, as in a preset.

    Raises:
        ValueError: an unknown key (naming near ones), a missing key or an impossible value.
    """
    check_training_keys(settings)
    needed = [one.name for one in fields(TrainingConfig) if one.default is MISSING and one.default_factory is MISSING]
    missing = [name for name in needed if name not in settings]
    if missing:
        raise ValueError(f"training needs {', '.join(missing)}")
    return TrainingConfig(**settings)


def check_training_keys(settings: Iterable[str]) -> None:
    """Raise ValueError for an unknown key, naming near ones."""
    _check_keys(settings, TrainingConfig, "training")


def check_tasks(config: TrainingConfig, known: Collection[str]) -> None:
    """Raise ValueError for settings of a task that is not among `known`, the tasks of the objective."""
    for name in config.tasks:
        if name not in known:
            raise ValueError(f"training.tasks.{name}: the objective has no such task; its tasks: {', '.join(known)}")


def with_whole_numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a preset has them, with integers where there must be: 1e3 steps become 1000."""
    taken = with_integers(TrainingConfig, settings)
    tasks = taken.get("tasks")
    if isinstance(tasks, Mapping):
        taken["tasks"] = {
            name: with_integers(TaskConfig, own) if isinstance(own, Mapping) else own for name, own in tasks.items()
        }
    return taken


def _task_configs(given: Any) -> dict[str, TaskConfig]:
    """Return the settings of tasks, which a preset has as nested mappings."""
    if not isinstance(given, Mapping):
        raise ValueError(f"training.tasks is {given!r}; it must be a section for each task, such as training.tasks.rtd")
    found = {}
    for name, own in given.items():
        if not isinstance(own, Mapping | TaskConfig):
            raise ValueError(f"training.tasks.{name} is {own!r}; it must be a section with the settings of a task")
        if isinstance(own, Mapping):
            _check_keys(own, TaskConfig, f"training.tasks.{name}")
            own = TaskConfig(**own)
        own.check(f"training.tasks.{name}.")
        found[name] = own
    return found


def _shares(given: Any) -> tuple[float, ...]:
    """Return shares of a run, which a preset has as a list, in order."""
    numbers = given if isinstance(given, list | tuple) else [given]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and 0.0 < one < 1.0 for one in numbers):
        raise ValueError(
            f"training.milestones is {given!r}; it must be a list of numbers between 0 and 1, such as [0.25, 0.5]"
        )
    return tuple(sorted({float(one) for one in numbers}))


def _check_keys(given: Iterable[str], kind: type, where: str) -> None:
    known = [one.name for one in fields(kind)]
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known) or sorted(known)
            raise ValueError(f"unknown key {key!r} in {where}; did you mean {', '.join(near)}?")


def _at_least(config: Any, name: str, least: int, where: str = "training.") -> None:
    if getattr(config, name) < least:
        raise ValueError(f"{where}{name} is {getattr(config, name)}; it must be at least {least}")
