"""A run of EMBERT: resumed with the same bits, and cut into micro-batches with the same losses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from models.objectives import build
from tests.support.training.entity_rows import random_entity_rows, random_surfaces
from tests.support.training.short_run import short_run
from tests.support.training.synthetic_examples import training
from tests.support.training.token_rows import TINY

SURFACES = random_surfaces()
ROWS, HELD_OUT = (random_entity_rows(SURFACES, count, seed) for count, seed in ((60, 0), (12, 1)))


@pytest.fixture
def objective(tmp_path: Path) -> Any:
    SURFACES.save(tmp_path)
    torch.manual_seed(0)
    made = build("embert", TINY | {"replace_probability": 0.5, "term_probability": 0.5})
    made.attach("entity_surfaces", tmp_path)
    return made


@pytest.mark.parametrize(
    "options", [{}, {"micro_batch_size": 3}, {"length_warmup_steps": 7, "length_warmup_tokens": 20}]
)
def test_resumed_run_ends_with_the_same_bits(objective: Any, options: dict[str, Any]) -> None:
    """Steps 9 to 12 read rows for the second time: 60 rows are 7.5 batches."""
    begun = copy.deepcopy(objective)
    states, losses = short_run(objective, ROWS, HELD_OUT, training(**options))
    resumed, again = short_run(begun, ROWS, HELD_OUT, training(**options), state=states[8])
    expected = objective.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in begun.state_dict().items())
    assert again == {step: of_step for step, of_step in losses.items() if step > 8}
    assert resumed[12]["positions"] == states[12]["positions"]


def test_micro_batches_change_no_loss(objective: Any) -> None:
    begun = copy.deepcopy(objective)
    _, losses = short_run(objective, ROWS, HELD_OUT, training(steps=4))
    _, cut = short_run(begun, ROWS, HELD_OUT, training(steps=4, micro_batch_size=3))
    for step, of_step in losses.items():
        assert cut[step] == pytest.approx(of_step, rel=1e-5, abs=1e-5)
