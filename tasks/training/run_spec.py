"""Pre-training as long work: the `run.json` of the stage `train`, and the `result.json` of its driver."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from infra.artifacts import InputRecord
from infra.place import module_name
from models import objectives
from models.training.config import TaskConfig, TrainingConfig, training_config
from tasks.training.checkpoints import Checkpoints
from tasks.training.cluster import Cluster, Workers
from tasks.training.launch import LongWork, Progress
from tasks.training.sources import EXAMPLES
from tasks.training.terms import LOSS_OF_TASK

TERA = 1e12


def unit_of(training: Mapping[str, Any]) -> str:
    """Return what the progress of a training counts: steps or, where a budget limits it, what it spends of that."""
    if training.get("flops") is not None:
        return "teraFLOP"
    return "step" if training.get("cpu_seconds") is None else "CPU second"


class RunSpec(LongWork):
    """One training run. Whatever is None is decided by the driver, which sees the cluster."""

    kind: ClassVar[str] = "train"
    module: ClassVar[str] = module_name("tasks/training/driver.py")

    store: str
    """Root of the artifact store that holds the inputs."""
    sources: dict[str, InputRecord]
    """By name, the inputs whose tables the run reads; `examples`, of the stage `encode`, is always among them."""
    resources: dict[str, InputRecord] = Field(default_factory=dict)
    """By name, the artifacts that are attached to the objective."""
    objective: str
    model: dict[str, Any]
    training: dict[str, Any]
    workers: Workers
    cpus_per_worker: int | None
    gpu: bool | None
    init_from: str | None = None
    """Folder of the BERT or ELECTRA whose weights the run begins with; None: random weights."""
    cluster: Cluster = Field(default_factory=Cluster)
    """Settings that are used as given: memory, patience, restarts, checkpoints."""

    @model_validator(mode="before")
    @classmethod
    def _with_sources(cls, given: Any) -> Any:
        """Read the `run.json` of earlier versions, which has the fingerprint of the examples alone."""
        if not isinstance(given, Mapping) or "examples" not in given:
            return given
        rest = {name: value for name, value in given.items() if name != "examples"}
        return {**rest, "sources": {EXAMPLES: {"stage": "encode", "fingerprint": given["examples"]}}}

    @property
    def config(self) -> TrainingConfig:
        return training_config(self.training)

    @functools.cached_property
    def terms(self) -> tuple[str, ...]:
        """Names of the objective's loss terms, in the order in which people see them."""
        return tuple(term.name for term in objectives.describe(self.objective, self.model).terms)

    @property
    def batch(self) -> str:
        """Size of the global batch for people, such as `96 sequences (pap: 16 sequences)`."""
        config = self.config
        own = ", ".join(f"{name}: {_size(config.batch_of(name))}" for name in config.tasks)
        return _size(config.batch_of("")) + (f" ({own})" if own else "")

    @property
    def allocation(self) -> Cluster:
        """Settings of the cluster with the workers, cores and GPUs of this run."""
        own = {"workers": self.workers, "cpus_per_worker": self.cpus_per_worker, "gpu": self.gpu}
        return self.cluster.model_copy(update=own)

    @property
    def label(self) -> str:
        return f"{self.objective} {self.name[:8]}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"objective": self.objective, "model": self.model, "training": self.training}

    @property
    def unit(self) -> str:
        return unit_of(self.training)

    @property
    def total(self) -> int:
        """Steps or, where a budget limits the run, its CPU seconds or teraFLOPs."""
        config = self.config
        if config.flops is not None:
            return math.ceil(config.flops / TERA)
        return config.steps if config.cpu_seconds is None else math.ceil(config.cpu_seconds)

    @property
    def has_budget(self) -> bool:
        """Whether a budget, and not the number of steps, is to end the run."""
        return self.config.cpu_seconds is not None or self.config.flops is not None

    def progress(self, entries: Sequence[Mapping[str, Any]]) -> Progress | None:
        """Return the newest step with its speed and losses: `15,000 tokens/s, loss 61.2, mlm 5.1`.

        Where a budget limits the run, CPU seconds or teraFLOPs are counted in place of steps.
        """
        training = [entry for entry in entries if entry["split"] == "train"]
        if not training:
            return None
        figures = training[-1]["figures"]
        wholes = [name for name in figures if name == "loss" or name.startswith(LOSS_OF_TASK)]
        losses = [f"{name.replace('_', ' ')} {figures[name]:.3g}" for name in (*wholes, *self.terms) if name in figures]
        done = training[-1]["step"]
        if "cpu_seconds" in figures:
            done = math.floor(figures["cpu_seconds"])
        elif "flops" in figures:
            done = math.floor(figures["flops"] / TERA)
        return Progress(min(done, self.total), ", ".join([f"{figures['tokens_per_second']:,.0f} tokens/s", *losses]))

    def interruption_note(self) -> str:
        """Return that the run begins again while it has no checkpoint."""
        if Checkpoints(self.storage, self.name).records():
            return ""
        first = min(self.config.checkpoint_every, self.config.steps)
        return (
            f"The training has no checkpoint yet, so it will begin again at step 0; the first is written after step "
            f"{first:,} (training.checkpoint_every)."
        )

    def result(self) -> RunResult | None:
        """Return what `result.json` says, or None while the run is not done."""
        content = self.read_result()
        return None if content is None else RunResult.model_validate_json(content)


def _size(batch: TaskConfig) -> str:
    if batch.batch_size is None:
        return f"{batch.batch_tokens:,} tokens"
    return f"{batch.batch_size:,} sequences"


class RunResult(BaseModel):
    """Resources of a finished run at its end; its first worker writes them after the last checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int
    cpus_per_worker: int
    gpu: bool
    steps: int | None = None
    """Steps done, of a run that a budget has ended; None: all steps of its settings."""
    micro_batch_size: int | None = None
    """Rows at once, as set or as chosen for the GPUs' memory; None: shares of the batch were not cut."""
    cpu_seconds: float | None = None
    """CPU seconds of all training processes since they last started, with evaluation; None: of an earlier version."""

    def applied_to(self, spec: RunSpec) -> RunSpec:
        """Return the run as it was carried out, with nothing left open."""
        ran = {"workers": self.workers, "cpus_per_worker": self.cpus_per_worker, "gpu": self.gpu}
        size = {} if self.micro_batch_size is None else {"micro_batch_size": self.micro_batch_size}
        steps: dict[str, int] = {}
        if self.steps is not None:  # a small budget may end within the warm-up
            steps = {"steps": self.steps, "warmup_steps": min(spec.config.warmup_steps, self.steps - 1)}
        return spec.model_copy(update={**ran, "training": {**spec.training, **size, **steps}})
