"""`run.json`: everything a training run needs to know, so that the driver can run by hand or as a Ray job."""

from __future__ import annotations

from typing import Any

import fsspec
from pydantic import BaseModel, ConfigDict, Field, field_validator

from infra.errors import UserError
from models.training.loop import TrainingConfig, training_config

Workers = int | tuple[int, int]
"""A number of training processes, or the fewest and the most that may take part as a cluster shrinks and grows."""


class Cluster(BaseModel):
    """What a run is given to run on. It changes speed, not results (tasks/pretrain/train.py names the exception), so it
    is in no fingerprint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: Workers = Field(
        default=1,
        description="Training processes, or [fewest, most]; the global batch is shared among those that are there. "
        "0: the driver's own process, without Ray.",
    )
    cpus_per_worker: int | None = Field(
        default=None, ge=1, description="Cores of each; by default those of the machine or cluster shared out."
    )
    memory_per_worker: float | None = Field(
        default=None, gt=0, description="GB of memory that Ray sets aside for each; by default it counts none."
    )
    gpu: bool | None = Field(default=None, description="One GPU a worker; by default where there are GPUs.")
    wait_minutes: float = Field(
        default=10.0, ge=0, description="How long a cluster may take to have room for the fewest workers."
    )
    max_failures: int = Field(default=3, ge=0, description="Restarts from the last checkpoint after a worker died.")
    max_preemptions: int = Field(
        default=-1, ge=-1, description="Restarts after a node was taken away, counted apart; -1: any number."
    )
    keep_checkpoints: int = Field(default=2, ge=1, description="The newest checkpoints that are kept.")
    keep_best: int = Field(default=1, ge=0, description="The best checkpoints that are kept beside the newest.")
    best_by: str | None = Field(
        default=None, description="Held-out figure that says which are best; by default the sum of the losses."
    )
    tensorboard: bool = Field(default=False, description="Write TensorBoard events beside the metrics.")

    @field_validator("workers", mode="before")
    @classmethod
    def _check_workers(cls, value: Any) -> Any:
        ends = [value, value] if isinstance(value, int) else value
        if (
            not isinstance(ends, list | tuple)
            or len(ends) != 2
            or any(not isinstance(end, int) or isinstance(end, bool) for end in ends)
            or not (1 <= ends[0] <= ends[1] or value == 0)
        ):
            raise ValueError("give a number of workers, or [fewest, most] from 1 on")
        return value

    @property
    def most_workers(self) -> int:
        return most(self.workers)


class RunSpec(BaseModel):
    """One training run. What is None is decided by the driver, which sees the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Fingerprint of the training stage: the same name resumes, another work has another name."""
    store: str
    """Root of the artifact store that holds the examples."""
    examples: str
    """Fingerprint of the `encode` artifact."""
    storage: str
    """Folder or URI for checkpoints and metrics, seen by every worker."""
    objective: str
    model: dict[str, Any]
    training: dict[str, Any]
    workers: Workers
    cpus_per_worker: int | None
    gpu: bool | None
    init_from: str | None = None
    """Folder of the BERT or ELECTRA whose weights the run begins with; None: random ones."""
    cluster: Cluster = Field(default_factory=Cluster)
    """The settings that hold as they were given: memory, patience, failures, checkpoints."""

    @property
    def config(self) -> TrainingConfig:
        return training_config(self.training)

    @property
    def batch(self) -> str:
        """The size of the global batch, as a person says it."""
        size = self.training.get("batch_size")
        return f"{self.training['batch_tokens']:,} tokens" if size is None else f"{size:,} sequences"

    @property
    def run_path(self) -> str:
        return f"{self.storage}/run.json"

    @property
    def metrics_path(self) -> str:
        return f"{self.storage}/metrics.jsonl"

    @property
    def result_path(self) -> str:
        return f"{self.storage}/result.json"

    @property
    def most_workers(self) -> int:
        return most(self.workers)

    @property
    def fewest_workers(self) -> int:
        return self.workers if isinstance(self.workers, int) else self.workers[0]

    @classmethod
    def read(cls, place: str) -> RunSpec:
        """Read a `run.json` from a path or URI.

        Raises:
            UserError: it is not there.
        """
        try:
            with fsspec.open(place, "rb") as file:
                return cls.model_validate_json(file.read())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(
                f"{place} is not on this machine. If a cluster trains, all its nodes must see YIWEN_HOME: put it on a "
                "shared file system that is mounted at the same path everywhere, or give a URI such as s3://…."
            ) from error

    def write(self) -> None:
        """Write `run.json` into the storage."""
        with fsspec.open(self.run_path, "wb") as file:
            file.write(self.model_dump_json(indent=1).encode())

    def result(self) -> RunResult | None:
        """What `result.json` says, or None while the run is not done."""
        filesystem, path = fsspec.core.url_to_fs(self.result_path)
        filesystem.invalidate_cache()
        try:
            return RunResult.model_validate_json(filesystem.cat_file(path))
        except FileNotFoundError:
            return None


class RunResult(BaseModel):
    """`result.json`: what a finished run ran on at the end. Written by its first worker after the last checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int
    cpus_per_worker: int
    gpu: bool
    micro_batch_size: int | None = None
    """Rows at once: as the settings say, or as was chosen for the GPUs' memory; None: shares were not cut."""

    def applied_to(self, spec: RunSpec) -> RunSpec:
        """The run as it was carried out, nothing left open."""
        ran = {"workers": self.workers, "cpus_per_worker": self.cpus_per_worker, "gpu": self.gpu}
        size = {} if self.micro_batch_size is None else {"micro_batch_size": self.micro_batch_size}
        return spec.model_copy(update={**ran, "training": {**spec.training, **size}})


def most(workers: Workers) -> int:
    """The most workers that may take part."""
    return workers if isinstance(workers, int) else workers[1]
