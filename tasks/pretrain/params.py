"""Parameters of the stages `train` and `export`.

Nothing here imports torch: a mistyped key is explained before that.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from infra.stage import StageParams
from models import objectives
from models.training.config import SPEED_ONLY, with_whole_numbers
from tasks.training.cluster import Cluster


class TrainParams(StageParams):
    """Objective, model and training.

    Settings that change speed and memory but not the results are in no fingerprint: `cluster` and the settings in
    `SPEED_ONLY`. Those change rounding and, if they cut the batch differently, what dropout and sampling draw on a GPU.
    So a run whose GPU was too small resumes with smaller micro-batches, or with recomputed activations. If the loss
    depends on how a batch is cut, their size and the number of workers decide it, and are in the fingerprint.
    """

    objective: str
    model: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any]
    cluster: Cluster = Field(default_factory=Cluster, exclude=True)

    @field_validator("training")
    @classmethod
    def _with_integers(cls, training: dict[str, Any]) -> dict[str, Any]:
        return with_whole_numbers(training)  # 1e3 steps are the same work as 1000

    @property
    def cut_dependence(self) -> str | None:
        """Setting that makes the loss depend on how a batch is cut into micro-batches and shared among workers."""
        return objectives.cut_dependence(self.objective, self.model)

    @model_serializer(mode="wrap", when_used="json")
    def _what_decides_results(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        of_model, of_training = objectives.speed_only(self.objective), SPEED_ONLY
        if self.cut_dependence is not None:
            of_training -= {"micro_batch_size"}
            written["workers"] = self.cluster.most_workers or 1
        for section, speed_only in (("model", of_model), ("training", of_training)):
            written[section] = {name: value for name, value in written[section].items() if name not in speed_only}
        return written


class ExportParams(StageParams):
    """Texts of the model card beside the run's figures."""

    name: str | None = Field(
        default=None, description="Name of the model in its card; by default yiwen and its objective."
    )
    license: str | None = Field(default=None, description="Licence of the weights, if any.")
    milestone: float | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Export the checkpoint of this share of the run, one of training.milestones; by default the last.",
    )
