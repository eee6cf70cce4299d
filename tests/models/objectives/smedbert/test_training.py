"""A run of SMedBERT: resumed with the same bits, cut into micro-batches, and shared by two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.objectives import build
from tests.support.processes.two_workers import run_two_workers
from tests.support.training import mention_process
from tests.support.training.mention_process import SHARES, objective_and_rows
from tests.support.training.mention_rows import SMEDBERT_TINY, mention_rows, save_graph
from tests.support.training.short_run import short_run
from tests.support.training.synthetic_examples import training

ROWS, HELD_OUT = mention_rows(60, 0), mention_rows(12, 1)


@pytest.fixture
def objective(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    made = build("smedbert", SMEDBERT_TINY | {"mention_probability": 0.4, "relation_choice": "drawn"})
    made.attach("knowledge", save_graph(tmp_path))
    return made


def twin(objective: Any, tmp_path: Path) -> Any:
    made = build("smedbert", SMEDBERT_TINY | {"mention_probability": 0.4, "relation_choice": "drawn"})
    made.load_state_dict(objective.state_dict())
    made.attach("knowledge", tmp_path)
    return made


@pytest.mark.parametrize("options", [{}, {"micro_batch_size": 3, "length_warmup_steps": 7, "length_warmup_tokens": 24}])
def test_resumed_run_ends_with_the_same_bits(objective: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    """Steps 9 to 12 read rows for the second time: 60 rows are 7.5 batches."""
    begun = twin(objective, tmp_path)
    states, losses = short_run(objective, ROWS, HELD_OUT, training(**options))
    _, again = short_run(begun, ROWS, HELD_OUT, training(**options), state=states[8])
    expected = objective.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in begun.state_dict().items())
    assert again == {step: of_step for step, of_step in losses.items() if step > 8}


def test_micro_batches_change_no_loss(objective: Any, tmp_path: Path) -> None:
    begun = twin(objective, tmp_path)
    _, losses = short_run(objective, ROWS, HELD_OUT, training(steps=4))
    _, cut = short_run(begun, ROWS, HELD_OUT, training(steps=4, micro_batch_size=3))
    for step, of_step in losses.items():
        assert cut[step] == pytest.approx(of_step, rel=1e-4, abs=1e-5)


def test_a_short_run_learns_what_the_text_does_not_say(objective: Any, tmp_path: Path) -> None:
    """Tokens of a mention tell its entity, and only the graph tells its neighbours. Rows are held out, entities not."""
    settings = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "initializer_range": 0.1}
    torch.manual_seed(0)
    objective = build("smedbert", SMEDBERT_TINY | settings)
    objective.attach("knowledge", tmp_path)
    held_out = objective.collate(named_rows(60, seed=999), seed=9, step=0)
    first = objective.rates(objective.metrics(held_out))
    optimizer = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    for step in range(70):
        optimizer.zero_grad()
        objective(objective.collate(named_rows(16, seed=step), seed=1, step=step))["loss"].backward()
        optimizer.step()
    last = objective.rates(objective.metrics(held_out))
    assert last["mlm_loss"] < 0.9 * first["mlm_loss"]
    assert last["mnem_loss"] < 0.2 * first["mnem_loss"] and last["mmem_loss"] < 0.4 * first["mmem_loss"]
    # Well above one of the candidates, and above the best answer without looking at the mention.
    assert last["neighbour_accuracy"] > last["neighbour_popular"] + 0.05 > 2 * last["neighbour_chance"]
    assert last["mention_accuracy"] > last["mention_chance"] + 0.1


def named_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows in which each entity is called by tokens of its own."""
    rows = mention_rows(count, seed)
    for row in rows:
        for first, behind, entity, _ in row["mentions"].tolist():
            row["input_ids"][first:behind] = 5 + 4 * entity + np.arange(behind - first)
    return rows


def test_two_processes_take_the_step_of_one(tmp_path: Path) -> None:
    """One of them has no mentions at all."""
    folder = save_graph(tmp_path)
    found = run_two_workers(mention_process, str(folder), tmp_path)
    objective, rows = objective_and_rows(folder)
    values = objective(objective.collate(rows, seed=5, step=7))
    values["loss"].backward()
    assert sum(map(len, SHARES)) == len(rows)
    for name, value in values.items():
        joint = sum(one["values"][name] for one in found) / 2
        assert joint == pytest.approx(value.item(), rel=1e-4, abs=1e-5), name
    for name, parameter in objective.named_parameters():
        torch.testing.assert_close(found[0]["gradients"][name], parameter.grad, rtol=1e-3, atol=1e-5)
