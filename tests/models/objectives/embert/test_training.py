"""A run of EMBERT: resumed with the same bits, and cut into micro-batches with the same losses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from models.objectives import build
from models.training.loop import TrainingConfig, train
from models.training.reader import ExampleStream
from tests.support.training.entity_rows import random_entity_rows, random_surfaces
from tests.support.training.synthetic_examples import training
from tests.support.training.token_rows import TINY

SURFACES = random_surfaces()
ENTITY = pa.struct({"start": pa.uint16(), "end": pa.uint16(), "surface": pa.uint32()})


class Part:
    """A part of the table entity_examples in memory."""

    def __init__(self, seed: int, rows: int) -> None:
        self.rows = rows
        made = random_entity_rows(SURFACES, rows, seed)
        entities = [
            [dict(zip(("start", "end", "surface"), one, strict=True)) for one in r["entities"].tolist()] for r in made
        ]
        self._table = pa.table(
            {
                "input_ids": pa.array([row["input_ids"] for row in made], pa.list_(pa.uint32())),
                "word_starts": pa.array([row["word_starts"] for row in made], pa.list_(pa.uint16())),
                "second": pa.array([row["second"] for row in made], pa.uint16()),
                "entities": pa.array(entities, pa.list_(ENTITY)),
            }
        )

    def read(self, columns: list[str] | None = None) -> pa.Table:
        return self._table.select(columns or self._table.column_names)


@pytest.fixture
def objective(tmp_path: Path) -> Any:
    SURFACES.save(tmp_path)
    torch.manual_seed(0)
    made = build("embert", TINY | {"replace_probability": 0.5, "term_probability": 0.5})
    made.attach("entity_surfaces", tmp_path)
    return made


def run(
    objective: Any, settings: dict[str, Any], **arguments: Any
) -> tuple[dict[int, Any], dict[int, dict[str, float]]]:
    """Train; the state at each checkpoint, and the losses of each step."""
    states: dict[int, Any] = {}
    losses: dict[int, dict[str, float]] = {}

    def report(step: int, split: str, figures: Any) -> None:
        if split == "step":
            losses[step] = {term.name: figures[term.name] for term in objective.terms}

    streams = (ExampleStream([Part(*given)], 1, objective.columns) for given in ((0, 60), (1, 12)))
    train(
        objective,
        *({objective.tasks[0].name: stream} for stream in streams),
        TrainingConfig(**settings),
        report=report,
        save=lambda step, state, held_out: states.update({step: copy.deepcopy(state)}),
        **arguments,
    )
    return states, losses


@pytest.mark.parametrize(
    "options", [{}, {"micro_batch_size": 3}, {"length_warmup_steps": 7, "length_warmup_tokens": 20}]
)
def test_resumed_run_ends_with_the_same_bits(objective: Any, options: dict[str, Any]) -> None:
    """Steps 9 to 12 read rows for the second time: 60 rows are 7.5 batches."""
    begun = copy.deepcopy(objective)
    states, losses = run(objective, training(**options))
    resumed, again = run(begun, training(**options), state=states[8])
    expected = objective.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in begun.state_dict().items())
    assert again == {step: of_step for step, of_step in losses.items() if step > 8}
    assert resumed[12]["positions"] == states[12]["positions"]


def test_micro_batches_change_no_loss(objective: Any) -> None:
    begun = copy.deepcopy(objective)
    _, losses = run(objective, training(steps=4))
    _, cut = run(begun, training(steps=4, micro_batch_size=3))
    for step, of_step in losses.items():
        assert cut[step] == pytest.approx(of_step, rel=1e-5, abs=1e-5)
