"""What is tuned when an encoder is fine-tuned, on any task, and how: eHealth's Tables 8 and 9 unless told otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from infra.stage import StageParams
from tasks.downstream.spec import Grid, TaskSpec
from tasks.finetune.grid import settings_of
from tasks.finetune.placement import Resources


def _listed(value: Any) -> Any:
    """A number alone is a list of one."""
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value


Integers = Annotated[tuple[int, ...], BeforeValidator(_listed)]
Floats = Annotated[tuple[float, ...], BeforeValidator(_listed)]


class TuningParams(StageParams):
    """What every stage that fine-tunes is told. `resources` is left out of the fingerprint: it changes speed, not
    results.
    """

    quick: bool = False
    """One setting and the first seed, instead of the whole grid."""
    seeds: Integers = Field(default=(1, 2, 3), min_length=1)
    batch_sizes: Integers | None = None
    """None: the grid's; so for the next two."""
    learning_rates: Floats | None = None
    epochs: Integers | None = None
    max_length: int | None = None
    """Tokens of a sequence; None: the task's, or the encoder's if it has fewer positions."""
    limit: int | None = Field(default=None, ge=1)
    """The most records of each split, for a try."""
    patience: int | None = Field(default=None, ge=1)
    """Epochs without a better dev score after which a trial stops."""
    ema_decay: float | None = Field(default=0.9999, ge=0.0, lt=1.0)
    ema_warmup: bool = True
    """The decay rises to its value, so that short runs are not spoilt; false is the paper's plain form."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Rate in the encoder (hidden states and attention) and before the head, 0.1 throughout in eHealth's Table 8. None:
    the encoder's rates are those of its config.json, which may be 0, and the head's is 0.1."""
    head_learning_rate: float | None = Field(default=None, gt=0.0)
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the products in training, and where a task's records are answered; candidates are ranked in fp32."""
    random_weights: bool = False
    """The encoder's architecture with fresh weights: what pre-training is worth shows against it."""
    resources: Resources = Field(default_factory=Resources, exclude=True)

    def grid(self, spec: TaskSpec) -> Grid:
        """The task's grid with what is given here in its place."""
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
        """What each trial is told by these parameters, as fields of `tasks.finetune.trial.Trial`; the seeds of a
        setting stand after each other.
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
