"""Short trainings of a tiny eHealth on synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from models import objectives
from models.training.loop import TrainingConfig, train
from tests.support.training.memory_part import stream_of
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, synthetic_rows

Entries = list[tuple[int, str, dict[str, float]]]


DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}


def build(**options: Any) -> Any:
    torch.manual_seed(0)
    return objectives.build("ehealth", {**TINY_MODEL, **DROPOUT, "vocab_size": VOCABULARY, **options})


def run(
    objective: Any, settings: Mapping[str, Any], rows: list[Any] | None = None, **arguments: Any
) -> tuple[Entries, dict[int, dict[str, Any]]]:
    """Train on synthetic rows; what was reported, and the state at each checkpoint."""
    entries: Entries = []
    states: dict[int, dict[str, Any]] = {}
    train(
        objective,
        stream_of(rows or synthetic_rows(0, 120)),
        stream_of(synthetic_rows(1, 20)),
        TrainingConfig(**settings),
        report=lambda step, split, figures: entries.append((step, split, dict(figures))),
        save=lambda step, state, held_out: states.update({step: state}),
        **arguments,
    )
    return entries, states
