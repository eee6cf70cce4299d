"""What a pre-training objective is: three small protocols, and the part that encoder objectives share.

An objective *trains* (it says which columns it reads, makes batches of rows and losses of batches), *reports* (it names
its loss terms and figures, with the chance levels they are compared with) and *costs* (operations and memory). General
code, the training loop, curves, pages, export, asks the objective; none of it names a term, a head or an architecture.

Shape legend: S sequences, T tokens laid end to end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from models.batch import PackedBatch
from models.distributed import global_sum, world
from models.training.columns import WORDS, Column
from models.training.tasks import Task, drawn_task

if TYPE_CHECKING:  # transformers takes half a second to import, and checking a preset needs none of it
    from transformers import PreTrainedConfig


class Trains(Protocol):
    """What the training loop asks of an objective.

    A batch knows its task where that matters, by its class or by a field: `forward` and `metrics` do what is right.
    """

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What a step may do, each with a table of rows."""

    def task(self, step: int, seed: int) -> str:
        """Return the name of the task that a step does (steps count from 0); it depends on nothing else."""

    def collate(self, rows: Any, *, seed: int, step: int, row_indices: Any = None) -> Any:
        """Return a batch of these rows, a `PackedBatch`.

        An objective with several tasks takes the name of the rows' task too, as `task`.
        """

    def survey(self, batches: Any) -> Sequence[Any]:
        """Return, for each of this rank's micro-batches of one global batch, what it must know of the others.

        `forward` and `metrics` take it as their second argument. All ranks call it.
        """

    def attach(self, name: str, folder: Path) -> None:
        """Take an artifact that the settings' `resources` name, before training; `folder` is local."""

    def identity(self) -> dict[str, Any]:
        """Return plain values that decide weights and losses; a checkpoint resumes only where they are the same."""


class Reports(Protocol):
    """What curves, pages, cards and tables ask of an objective."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the loss that are on, in the order in which they are shown."""

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return what the curves show of a step, from `forward`'s values over the global batch.

        "loss" is among both.
        """

    def metrics(self, batch: Any, share: Any = None) -> dict[str, Tensor]:
        """Return sums and counts over a held-out batch, which add up over batches and ranks."""

    def rates(self, added: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Return losses, accuracies and chance levels from added `metrics` of one task."""

    @property
    def held_out_figures(self) -> tuple[str, ...]:
        """Names of the figures in `rates`, over all tasks; `loss` is the tasks' sum."""


class Costs(Protocol):
    """What logs, meters and the choice of micro-batches ask of an objective."""

    flops_formula: str
    """What `flops` adds up, in words."""

    def flops(self, batch: Any) -> float:
        """Return the floating-point operations of a training step on this batch."""

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step."""

    def row_bytes_of(self, task: str, precision: str) -> float:
        """Return the same of a row of one of several tasks, with the sequences that `collate` adds to it."""

    def workspace_bytes(self) -> float:
        """Return the bytes of GPU memory needed beside weights, optimiser and rows."""

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that the model reads."""


class Objective(Trains, Reports, Costs, Protocol):
    """All of it, and what is exported."""

    @property
    def start(self) -> Start:
        """Parts that continual pre-training begins with a checkpoint's weights."""

    @property
    def exports(self) -> tuple[str, ...]:
        """Names of what can be exported; the first is what pre-training is for."""

    def exported(self, name: str | None = None) -> Exported:
        """Return a model in transformers' layout: the one of that name in `exports`, by default the first."""


@dataclass(frozen=True)
class Term:
    """A term of a loss: its name in `forward`'s values and in the curves, its title and its weight."""

    name: str
    title: str
    weight: float = 1.0


@dataclass(frozen=True)
class Exported:
    """A model in transformers' layout."""

    config: PreTrainedConfig
    """Its `architectures` names the class whose weights these are."""
    state: dict[str, Tensor]


HeadReader = Callable[[Mapping[str, Tensor], str, Tensor], dict[str, Tensor]]
"""Takes a checkpoint's weights, transformers' name of its kind and its row for each of our ids int64 (V,); gives the
weights of a head under our names, as far as the checkpoint has them.
"""


@dataclass(frozen=True)
class Start:
    """What of an objective can begin with the weights of a checkpoint, by the names of its parts."""

    encoder: str
    """The encoder that is pre-trained."""
    twin: str | None = None
    """A second encoder on the same embeddings, which takes the layers too where it is as wide."""
    heads: Mapping[str, HeadReader] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What one pass over a batch found."""

    sums: dict[str, Tensor]
    """Each term's loss, added over the tokens or sequences that it is a mean of; with gradients."""
    counts: dict[str, Tensor | int]
    """Numbers that add up over batches, such as right answers."""

    def __or__(self, other: Outcome) -> Outcome:
        """Return both, of terms with different names."""
        return Outcome(self.sums | other.sums, self.counts | other.counts)


class EncoderObjective(nn.Module):
    """The part that all objectives share; `config` is an `ObjectiveConfig` with `max_positions`."""

    name: ClassVar[str]
    """Name by which presets call the objective."""
    config: Any

    def __init__(self) -> None:
        super().__init__()
        self.attached: dict[str, str] = {}
        """Stage and fingerprint of each artifact that was attached."""

    def attach(self, name: str, folder: Path) -> None:
        """Take one of the artifacts that the settings' `resources` name, before training.

        The artifact is known by the last two steps of its folder, `<stage>/<fingerprint>`. A subclass calls this, then
        opens what it reads there.

        Raises:
            ValueError: the settings name no such artifact.
        """
        known = self.config.resources()
        if name not in known:
            raise ValueError(f"objective {self.name} takes no {name!r}; it takes {', '.join(known) or 'none'}")
        self.attached[name] = "/".join(folder.parts[-2:])

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of its table that the objective's only task reads."""
        return WORDS

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The only task, named as the objective, on the table `examples`."""
        return (Task(self.name, self.columns),)

    def task(self, step: int, seed: int) -> str:
        """Return the name of the task that a step does, drawn by the shares of its settings."""
        shares = self.config.shares()
        return drawn_task(shares, step, seed) if shares else self.tasks[0].name

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that the model reads."""
        return int(self.config.max_positions)

    def row_bytes_of(self, task: str, precision: str) -> float:
        """Return `row_bytes`: by default a row takes as much in any task."""
        return self.row_bytes(precision)

    @abstractmethod
    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step."""

    def identity(self) -> dict[str, Any]:
        """Return what decides this objective's weights and losses, as plain values for a checkpoint."""
        settings = {name: value for name, value in asdict(self.config).items() if name not in self.config.speed_only}
        return {"objective": self.name} | settings | ({"resources": dict(self.attached)} if self.attached else {})

    def check_export(self, name: str | None) -> str:
        """Return the name of an export, the first for None. Raises ValueError for one that is not in `exports`."""
        known: tuple[str, ...] = self.exports
        if name is not None and name not in known:
            raise ValueError(f"{name!r} cannot be exported; there are {', '.join(known)}")
        return known[0] if name is None else name

    @property
    @abstractmethod
    def start(self) -> Start:
        """Parts that continual pre-training begins with a checkpoint's weights (models/continual.py)."""

    @property
    @abstractmethod
    def exports(self) -> tuple[str, ...]:
        """Names of what can be exported; the first is what pre-training is for."""


class TermwiseObjective(EncoderObjective):
    """An objective whose terms are means over tokens or sequences that a batch names before it is computed.

    Of several tasks each has terms of its own: `divisors` and `outcome` give those of the batch's task.
    A subclass gives `terms`, `divisors`, `outcome`, `held_out_rates` with `rate_names`, and its costs; losses,
    micro-batches, workers and held-out figures follow. An objective that compares the sequences of a whole global
    batch, as eHealth does, writes its own.
    """

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """Terms of the loss that are on."""

    @abstractmethod
    def divisors(self, batch: Any) -> dict[str, int]:
        """Return, for each term of a batch's task, the number of tokens or sequences that it is a mean of."""

    @abstractmethod
    def outcome(self, batch: Any, *, measure: bool) -> Outcome:
        """Compute a batch. `measure`: count right answers too, which a training step does without where they cost."""

    @property
    @abstractmethod
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""

    @abstractmethod
    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies and chance levels from a task's added counts, with its `divisors` as `<term>_total`."""

    def forward(self, batch: PackedBatch, totals: Mapping[str, float] | None = None) -> dict[str, Tensor]:
        """Return {"loss", each term} as scalars, and counts that `step_figures` reads; only "loss" has a gradient.

        With `totals` None the batch is all that this rank has of the global batch. Otherwise it is a micro-batch, and
        the values of a rank's micro-batches add up to that rank's. Terms are means over the global batch; everything is
        scaled so that its mean over ranks is the value for the joint batch (models/distributed.py).
        """
        found = self.outcome(batch, measure=False)
        by = self._totals([batch]) if totals is None else totals
        # DDP averages gradients over ranks: times the number of ranks, divided by the global count, is the global mean.
        means = {name: value * (world().size / by[name]) for name, value in found.sums.items()}
        loss = torch.stack([means[term.name] * term.weight for term in self.terms if term.name in means]).sum()
        counts = {
            name: torch.as_tensor(value, dtype=torch.float32, device=loss.device) * world().size
            for name, value in found.counts.items()
        }
        return {"loss": loss} | {name: value.detach() for name, value in means.items()} | counts

    def survey(self, batches: Sequence[Any]) -> list[Mapping[str, float]]:
        """Return the divisors of the global batch for each of this rank's micro-batches. All ranks must call it."""
        return [self._totals(batches)] * len(batches)

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the losses of a step."""
        return {name: values[name] for name in ("loss", *(term.name for term in self.terms)) if name in values}

    @torch.no_grad()
    def metrics(self, batch: PackedBatch, totals: Mapping[str, float] | None = None) -> dict[str, Tensor]:
        """Return sums and counts (float64 scalars) over this rank's rows of a held-out batch, for `rates`."""
        found = self.outcome(batch, measure=True)
        sums: dict[str, Any] = {f"{name}_loss_sum": value for name, value in found.sums.items()}
        sums |= {f"{name}_total": count for name, count in self.divisors(batch).items()} | found.counts
        sums["tokens"] = batch.tokens
        return {name: torch.as_tensor(value, dtype=torch.float64) for name, value in sums.items()}

    def rates(self, added: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Return the loss, its terms, accuracies and chance levels from the added `metrics` of a task."""
        sums = {name: float(value) for name, value in added.items()}
        terms = [term for term in self.terms if f"{term.name}_total" in sums]
        losses = {term.name: ratio(sums[f"{term.name}_loss_sum"], sums[f"{term.name}_total"]) for term in terms}
        # A term of which the held-out rows have nothing adds nothing, as in training.
        whole = {"loss": sum(term.weight * losses[term.name] for term in terms if sums[f"{term.name}_total"])}
        return whole | {f"{name}_loss": value for name, value in losses.items()} | self.held_out_rates(sums)

    @property
    def held_out_figures(self) -> tuple[str, ...]:
        """Names of the figures in `rates`."""
        return ("loss", *(f"{term.name}_loss" for term in self.terms), *self.rate_names)

    def _totals(self, batches: Sequence[Any]) -> dict[str, float]:
        """Divisor of each term: its count over these batches of all ranks, at least 1."""
        found = [self.divisors(batch) for batch in batches]
        names = [term.name for term in self.terms if term.name in found[0]]
        counts = np.sum([[one[name] for name in names] for one in found], axis=0)
        totals = global_sum(torch.as_tensor(counts, dtype=torch.float64))
        return dict(zip(names, totals.clamp(min=1.0).tolist(), strict=True))


def ratio(part: float, whole: float) -> float:
    """Return part / whole; NaN for a share of nothing."""
    return part / whole if whole else float("nan")
