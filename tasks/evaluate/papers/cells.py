"""Cells of the comparison: which start on which task with how many records, and in which order they are run.

Cheap and telling work comes first, so that the page is worth reading whenever it is made: the floor and BERT at 300
records, then what is one step farther: the next models, or another number of records. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.evaluate.papers.models import FOLLOWED, MILESTONES, MODELS, RANDOM

TASKS = ("cmedic", "cmedqaner", "cmedqq", "cmedtc", "cehrner")
"""Tasks of ChineseBLUE by what a run costs, the cheapest first."""
NOT_RUN = "not run yet"
SIZES = (300, 100, 1_000, None)
"""Records of train, in the order of work; None: all."""
WAVES: Mapping[str, int] = {
    RANDOM: 0,
    "bert": 0,
    "electra": 1,
    "ehealth": 1,
    "ehealth-without-csp": 2,
    "ehealth-without-mts": 2,
    **{model.name: 3 for model in MODELS if model.start is not None},
}
"""How soon a model's cells are wanted, 0 first."""


@dataclass(frozen=True)
class Cell:
    """A start fine-tuned on a task."""

    model: str
    task: str
    records: int | None
    """Of train; None: all."""
    milestone: float | None = None
    """Share of pre-training after which the start was kept; None: all of it."""

    @property
    def name(self) -> str:
        """Name of the cell among the inputs of the page: bert-cmedtc-300, bert-at-0.25-cmedtc-300."""
        at = "" if self.milestone is None else f"-at-{self.milestone:g}"
        return f"{self.model}{at}-{self.task}-{size_name(self.records)}"


def size_name(records: int | None) -> str:
    """Return a number of records as it stands in names: 300, or all."""
    return "all" if records is None else str(records)


def ordered_cells(
    models: Sequence[str], tasks: Sequence[str] = TASKS, sizes: Sequence[int | None] = SIZES
) -> list[Cell]:
    """Return all cells in the order in which they are run.

    A milestone of a model counts as one wave later than the model, and is scored with the first of `sizes` alone.
    """
    ranked: list[tuple[int, int, int, Cell]] = []
    for model in models:
        for place, size in enumerate(sizes):
            for number, task in enumerate(tasks):
                ranked.append((WAVES[model] + place, WAVES[model], number, Cell(model, task, size)))
        if model in FOLLOWED:
            for milestone in MILESTONES:
                for number, task in enumerate(tasks):
                    ranked.append((WAVES[model] + 1, WAVES[model], number, Cell(model, task, sizes[0], milestone)))
    return [cell for *_, cell in sorted(ranked, key=lambda one: one[:3])]
