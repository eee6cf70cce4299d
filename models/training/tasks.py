"""Tasks of an objective: what a step may do, each with rows of its own.

Most objectives have one task. ELECTRA+EM+PAP has two: in some steps it detects replaced tokens in rows of text, in the
others it ranks the values of products. Each task has its own table, its own place in it, and its own batch size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.encoder.randomness import Stream, uniforms
from models.training.columns import WORDS, Column

FIGURES_OF_TASKS = ("loss", "gradient_norm")
"""Figures of every step that cannot be compared between tasks."""


@dataclass(frozen=True)
class Task:
    """One of the tasks of an objective, and the rows that it reads."""

    name: str
    columns: tuple[Column, ...] = WORDS
    """Columns of its table that are read. `input_ids` is among them: its length is that of the row."""
    table: str = "examples"
    """Table of the rows to train on, by its name in infra/schemas.py."""
    held_out: str = "held_out"
    """Table of the rows that it is evaluated on; it has the same columns."""


def drawn_task(shares: Mapping[str, float], step: int, seed: int) -> str:
    """Return the task of a step: each is drawn with its share as probability, as a function of (seed, step).

    `shares` add up to 1 (`models.objectives.config.check_shares`).
    """
    draw = float(uniforms(seed, step, 0, Stream.TASK, 0)[0])
    bound = 0.0
    for name, share in shares.items():
        bound += share
        if draw < bound:
            return name
    return name  # 0.7 + 0.2 + 0.1 is a little under 1, and the draw may be between


def figures_of_task(figures: Mapping[str, float], task: str) -> dict[str, float]:
    """Return the figures of a step of one of several tasks: `loss` in a step of `rtd` becomes `loss_rtd`."""
    return {f"{name}_{task}" if name in FIGURES_OF_TASKS else name: value for name, value in figures.items()}


def joined(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the held-out figures of all tasks in one mapping; `loss` is the sum of the tasks' losses.

    Raises:
        ValueError: two tasks have another figure of the same name.
    """
    found: dict[str, float] = {}
    for task, own in figures.items():
        both = found.keys() & own.keys()
        if both - {"loss"}:
            raise ValueError(f"another task than {task} reports {', '.join(sorted(both - {'loss'}))} too")
        found |= {name: found[name] + value if name in both else value for name, value in own.items()}
    return found
