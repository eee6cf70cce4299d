"""Resources of long training on a machine or cluster: workers, cores, GPUs, patience and restarts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

Workers = int | tuple[int, int]
"""Number of training processes, or the fewest and the most that may take part as a cluster shrinks and grows."""


class Cluster(BaseModel):
    """Resources of a run. They change its speed and not its results, so they are in no fingerprint.

    tasks/pretrain/train.py names the one exception.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: Workers = Field(
        default=1,
        description="Training processes, or [fewest, most]; the global batch is shared among those that are there. "
        "0: the driver's own process, without Ray.",
    )
    cpus_per_worker: int | None = Field(
        default=None, ge=1, description="Cores per worker; by default an equal share of the machine or cluster."
    )
    memory_per_worker: float | None = Field(
        default=None, gt=0, description="GB of memory that Ray reserves per worker; by default none."
    )
    gpu: bool | None = Field(default=None, description="One GPU per worker; by default where there are GPUs.")
    wait_minutes: float = Field(
        default=10.0, ge=0, description="How long a cluster may take to have room for the fewest workers."
    )
    max_failures: int = Field(default=3, ge=0, description="Restarts from the last checkpoint after a worker died.")
    max_preemptions: int = Field(
        default=-1, ge=-1, description="Restarts after a node was taken away, counted separately; -1: any number."
    )
    keep_checkpoints: int = Field(default=2, ge=1, description="Number of newest checkpoints to keep.")
    keep_best: int = Field(default=1, ge=0, description="Number of best checkpoints to keep beside the newest.")
    best_by: str | None = Field(
        default=None, description="Held-out figure that decides which are best; by default the loss."
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
            raise ValueError("give a number of workers, or [fewest, most] with fewest at least 1")
        return value

    @property
    def fewest_workers(self) -> int:
        """Workers without which the run does not start."""
        return self.workers if isinstance(self.workers, int) else self.workers[0]

    @property
    def most_workers(self) -> int:
        """Workers that may take part at most."""
        return self.workers if isinstance(self.workers, int) else self.workers[1]
