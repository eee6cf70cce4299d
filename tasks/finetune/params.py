"""Parameters of fine-tuning on any task. The defaults are eHealth's Tables 8 and 9.

Nothing here imports torch: a mistyped key is explained before that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from infra.stage import StageParams
from tasks.downstream.catalogue.grids import NETWORK_GRID, NETWORK_PATIENCE
from tasks.downstream.spec import Grid, TaskSpec


def _listed(value: Any) -> Any:
    """Return a single number as a list of one."""
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value


Integers = Annotated[tuple[int, ...], BeforeValidator(_listed)]
Floats = Annotated[tuple[float, ...], BeforeValidator(_listed)]


class Resources(BaseModel):
    """Resources of the trials. They change speed, never which trials there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trials_at_once: int | None = Field(default=None, ge=1)
    """None: as many as the GPUs have room for or, without GPUs, one per two cores of a node."""
    gpu: bool | None = None
    """None: if there is one."""
    trials_per_gpu: int = Field(default=1, ge=1, le=64)
    """Trials that share a GPU: small encoders leave most of one idle."""


class TuningParams(StageParams):
    """Parameters of every stage that fine-tunes.

    `resources` is left out of the fingerprint, because it changes speed and not results.
    """

    quick: bool = False
    """Try one setting with the first seed, instead of the whole grid."""
    seeds: Integers = Field(default=(1, 2, 3), min_length=1)
    """Seeds of the trials that a setting is judged by."""
    batch_sizes: Integers | None = None
    """None: those of the task's grid. The same holds for learning rates and epochs."""
    learning_rates: Floats | None = None
    """Peak learning rates to try; None: those of the task's grid."""
    epochs: Integers | None = None
    """Numbers of epochs to try; None: those of the task's grid."""
    max_length: int | None = None
    """Tokens per sequence; None: the task's, or the encoder's positions if those are fewer."""
    limit: int | None = Field(default=None, ge=1)
    """Records per split at most, for a quick try."""
    patience: int | None = Field(default=None, ge=1)
    """Epochs without a better dev score before a trial stops."""
    ema_decay: float | None = Field(default=0.9999, ge=0.0, lt=1.0)
    """Decay of the moving average of weights that is evaluated and kept; None: no averaging."""
    ema_warmup: bool = True
    """Raise the decay gradually, so that averaging does not spoil short runs; false: the paper's constant decay."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Rate in the encoder (hidden states and attention) and before the head; 0.1 throughout in eHealth's Table 8. None:
    the rates of the encoder's config.json, which may be 0, and 0.1 before the head."""
    head_learning_rate: float | None = Field(default=None, gt=0.0)
    """Peak learning rate of the head; None: that of the encoder."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of matrix products in training and in answering records. Candidates are ranked in fp32."""
    random_weights: bool = False
    """Start from fresh weights of the same architecture: a baseline that shows what pre-training is worth."""
    resources: Resources = Field(default_factory=Resources, exclude=True)

    def grid(self, spec: TaskSpec) -> Grid:
        """Return the task's grid with the values that are given here."""
        own = spec.grid
        given = [name for name in ("batch_sizes", "learning_rates", "epochs") if getattr(self, name)]
        source = own.source + (f", but for {', '.join(given)}, which were given" if given else "")
        return Grid(
            self.batch_sizes or own.batch_sizes,
            self.learning_rates or own.learning_rates,
            self.epochs or own.epochs,
            f"one setting of {source}" if self.quick else source,
        )

    def runs(self, spec: TaskSpec) -> list[dict[str, Any]]:
        """Return the fields of `tasks.finetune.trials.trial.Trial` that follow from these parameters, for each trial.

        The seeds of a setting follow each other.
        """
        seeds: Sequence[int] = self.seeds[:1] if self.quick else self.seeds
        options = ("patience", "ema_decay", "ema_warmup", "head_learning_rate", "precision")
        return [
            {
                "batch_size": batch_size,
                "learning_rate": rate,
                "epochs": epochs,
                "seed": seed,
                "max_length": self.max_length,
                "options": {name: getattr(self, name) for name in options},
                "dropout": self.dropout,
                "random_weights": self.random_weights,
            }
            for batch_size, rate, epochs in settings_of(self.grid(spec), self.quick)
            for seed in seeds
        ]


class FinetuneParams(TuningParams):
    """A task, and the parameters of its fine-tuning."""

    task: str
    """Name of the task; it follows from the parameter tasks."""
    crf: bool = False
    """Put a conditional random field over the tags; for tasks of kind tagging."""
    network: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Let one of CMedLMs' networks answer, over the frozen last four layers of the model, or over a table of vectors:
    bilstm_crf, cnn_lstm, bilstm, bigru or staresgru_cnn_crf for tagging; cnn_lstm, cnn, bigru, cnn_gru, bilstm,
    dropout_bigru, dropout_avrnn, avrnn, avcnn, dpcnn or staresgru_cnn for classes and labels. Its grid is the paper's
    (batches of 64, at most 100 epochs, patience 10), with a learning rate of 0.001."""

    pooling: Literal["cls", "mean"] = Field(default="cls", exclude_if=lambda value: value == "cls")
    """What the answer is read from, where a text or a pair has one: the state of [CLS], as in the papers, or the mean
    of its tokens' states. The mean may suit small models and few records, whose pre-training never trained [CLS]; no
    class of transformers reads it."""
    class_weights: Literal["balanced"] | None = Field(default=None, exclude_if=lambda value: value is None)
    """balanced: in training a record counts the more, the rarer its label is, so that all labels together count alike;
    of several labels, where a label is given counts as much as where it is not. For tasks of one or several labels."""
    train_records: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)
    """Records of train to learn from, drawn by the trial's seed: what pre-training is worth depends on them. Fewer are
    among the more of the same seed, dev and test stay whole, and labels are those of the whole file."""

    @property
    def head_options(self) -> dict[str, Any]:
        """Options of the head that do not follow from the task."""
        given = {"crf": self.crf, "network": self.network, "pooling": self.pooling}
        return {name: value for name, value in given.items() if value not in (False, None, "cls")}

    def grid(self, spec: TaskSpec) -> Grid:
        """Return the grid of the task, or of networks, with the values that are given here."""
        return super().grid(spec if self.network is None else replace(spec, grid=NETWORK_GRID))

    def runs(self, spec: TaskSpec) -> list[dict[str, Any]]:
        """See `TuningParams.runs`; networks have a patience of their own."""
        own = self if self.network is None or self.patience else self.model_copy(update={"patience": NETWORK_PATIENCE})
        return super(FinetuneParams, own).runs(spec)


class NetworksParams(FinetuneParams):
    """Parameters of fine-tuning, for several networks."""

    networks: tuple[str, ...] = Field(min_length=1)
    """Names as in `network`, each once."""


def settings_of(grid: Grid, quick: bool = False) -> list[tuple[int, float, int]]:
    """Return every batch size, learning rate and number of epochs of a grid.

    If `quick`, it is one setting: the largest batch, the middle rate and the fewest epochs.
    """
    if quick:
        rates = sorted(grid.learning_rates)
        return [(max(grid.batch_sizes), rates[len(rates) // 2], min(grid.epochs))]
    return list(itertools.product(grid.batch_sizes, grid.learning_rates, grid.epochs))
