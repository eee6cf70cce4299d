"""`run.json`: everything a training run needs to know, so that the driver can run by hand or as a Ray job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from models.training import TrainingConfig, training_config


class Cluster(BaseModel):
    """What a run is given to run on. It changes speed, never results, so it is in no fingerprint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int = Field(default=1, ge=1, description="Training processes; the global batch is shared among them.")
    cpus_per_worker: int | None = Field(
        default=None, ge=1, description="Threads of each; by default the cores of this machine shared out."
    )
    gpu: bool | None = Field(default=None, description="One GPU a worker; by default where this machine has one.")
    max_failures: int = Field(default=3, ge=0, description="Restarts from the last checkpoint after a worker died.")


class RunSpec(BaseModel):
    """One training run, resolved: no defaults are left to the place where it runs."""

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
    workers: int
    cpus_per_worker: int
    gpu: bool
    max_failures: int

    @property
    def config(self) -> TrainingConfig:
        return training_config(self.training)

    @property
    def metrics_path(self) -> str:
        return f"{self.storage}/metrics.jsonl"

    @property
    def result_path(self) -> str:
        return f"{self.storage}/result.json"

    @classmethod
    def read(cls, path: Path) -> RunSpec:
        """Read a `run.json`."""
        return cls.model_validate_json(path.read_text(encoding="utf-8"))
