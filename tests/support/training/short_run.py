"""A training of a few steps on rows in memory, for objectives with one task."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from models.training.loop import TrainingConfig, train
from tests.support.training.memory_part import stream_of

Rows = Sequence[Mapping[str, Any]]


def short_run(
    objective: Any, rows: Rows, held_out: Rows, settings: Mapping[str, Any], **arguments: Any
) -> tuple[dict[int, Any], dict[int, dict[str, float]]]:
    """Train; the state at each checkpoint, and the losses of each step. `arguments` are further ones of `train`."""
    states: dict[int, Any] = {}
    losses: dict[int, dict[str, float]] = {}

    def report(step: int, split: str, figures: Any) -> None:
        if split == "step":
            losses[step] = {term.name: figures[term.name] for term in objective.terms}

    train(
        objective,
        *({objective.tasks[0].name: stream_of(own, columns=objective.columns)} for own in (rows, held_out)),
        TrainingConfig(**settings),
        report=report,
        save=lambda step, state, held_out: states.update({step: copy.deepcopy(state)}),
        **arguments,
    )
    return states, losses
