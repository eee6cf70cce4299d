"""Settings of the comparison of papers: budgets, grid and seeds, the same for every model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows.recipes.loading import checked, overlaid
from flows.recipes.pretraining import Preset, load_preset
from tasks.downstream.catalogue import task
from tasks.evaluate.papers.cells import Cell
from tasks.evaluate.papers.models import MILESTONES, ComparedModel
from tasks.finetune.params import FinetuneParams, Resources

PAST_ALL = 100_000_000
"""Steps that no budget reaches."""


class Tuning(BaseModel):
    """Fine-tuning of every start, on every task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seeds: tuple[int, ...] = Field(default=(1, 2, 3), min_length=1)
    """Seeds of every cell."""
    batch_size: int = 8
    """Records of a batch."""
    learning_rates: tuple[float, ...] = Field(default=(5e-4, 1e-3), description="The better one on dev is kept.")
    epochs: dict[str, int] = Field(
        default={"100": 15, "300": 12, "1000": 8, "all": 4},
        description="Epochs by the number of records: fewer records need more.",
    )
    ema_decay: float | None = None
    """Decay of the moving average of weights; None: no averaging."""
    dropout: float | None = 0.1
    """Dropout rate of encoder and head; None: the encoder's own."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products."""
    pooling: Literal["cls", "mean"] = "cls"
    """What the answer about a text or a pair is read from, as in `FinetuneParams`; taggers read every token."""


class PapersRecipe(BaseModel):
    """Budgets and fine-tuning."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(default=14_400.0, gt=0, description="CPU seconds of every model of stage 1.")
    more_seconds: float = Field(default=3_600.0, gt=0, description="CPU seconds of every model of stage 2.")
    flops: float | None = Field(
        default=None, gt=0, description="Model FLOPs of every model of stage 1, in place of CPU seconds; for GPUs."
    )
    more_flops: float | None = Field(default=None, gt=0, description="Model FLOPs of every model of stage 2.")
    rows: int | None = Field(
        default=None,
        ge=2,
        description="Rows of a step, each view counted, the same for every model; null: those of its preset.",
    )
    cores: int = Field(default=1, ge=1, description="Threads of a training process.")
    at_once: int = Field(default=1, ge=1, le=64, description="Fine-tunings that run at a time, on one GPU too.")
    tuning: Tuning = Field(default_factory=Tuning)

    def preset(self, model: ComparedModel, overrides: Mapping[str, Any]) -> Preset:
        """Return a model's preset with its budget; `overrides` hold for all models."""
        first = model.start is None
        budget = {
            "training.steps": PAST_ALL,
            **(
                {"training.cpu_seconds": self.seconds if first else self.more_seconds}
                if self.flops is None
                else {"training.flops": self.flops if first else self.more_flops}
            ),
            **({} if self.rows is None else {"training.batch_size": max(1, self.rows // model.views)}),
            "training.milestones": list(MILESTONES),
            "cluster.workers": 0,
            "cluster.cpus_per_worker": self.cores,
            "cluster.keep_best": 0,
        }
        return load_preset(model.preset, {**budget, **overrides, **model.overrides})

    def finetuning(self, cell: Cell) -> FinetuneParams:
        """Return the parameters of a cell."""
        tuning = self.tuning
        size = "all" if cell.records is None else str(cell.records)
        return FinetuneParams(
            task=cell.task,
            seeds=tuning.seeds,
            batch_sizes=(tuning.batch_size,),
            learning_rates=tuning.learning_rates,
            epochs=(tuning.epochs[size],),
            train_records=cell.records,
            ema_decay=tuning.ema_decay,
            dropout=tuning.dropout,
            precision=tuning.precision,
            random_weights=cell.model == "random",
            pooling=tuning.pooling if task(cell.task).answers_whole_texts else "cls",
            resources=Resources(trials_at_once=self.at_once, trials_per_gpu=self.at_once),
        )

    @model_validator(mode="after")
    def _both_budgets(self) -> PapersRecipe:
        if (self.flops is None) != (self.more_flops is None):
            raise ValueError("flops and more_flops are the budgets of the two stages: give both, or neither")
        return self


def load_papers(given: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> PapersRecipe:
    """Return the settings. Raises `UserError` for unknown keys and unusable values, by name.

    Args:
        given: values of the flow's own parameters.
        overrides: dotted keys to values, such as `{"tuning.seeds": [1, 2, 3, 4, 5]}`.
    """
    return checked(PapersRecipe, overlaid(given, "the flow's parameters", overrides))
