"""The sparse optimiser against torch's dense one, and sums of rows against a loop."""

from __future__ import annotations

import torch

from kg.embedding.gradients import RowGradient, sum_rows
from kg.embedding.limits import short_rows
from kg.embedding.optimiser import RowAdagrad
from kg.transr import TransR


def test_adagrad_equals_torchs() -> None:
    model, reference = TransR(9, 4, 5, 3, seed=1), TransR(9, 4, 5, 3, seed=1)
    ours = RowAdagrad(model, {}, learning_rate=0.1, shares={"projections": 0.5})
    dense = torch.optim.Adagrad(
        [{"params": [reference.entities, reference.relations]}, {"params": [reference.projections], "lr": 0.05}], lr=0.1
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        gradients = {}
        for name, table in reference.named_parameters():
            rows = torch.randperm(len(table), generator=generator)[:3].sort().values
            values = torch.randn(3, *table.shape[1:], generator=generator)
            gradients[name] = RowGradient(rows, values)
            table.grad = torch.zeros_like(table).index_copy_(0, rows, values)
        ours.step(gradients)
        dense.step()
    for name, table in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), table, rtol=1e-6, atol=1e-7)


def test_limits_hold_after_a_step() -> None:
    model = TransR(9, 4, 5, 3)
    optimiser = RowAdagrad(model, model.limits, learning_rate=5.0)
    before = model.entities.detach().clone()
    optimiser.step({"entities": RowGradient(torch.tensor([2, 7]), torch.ones(2, 5))})
    assert model.entities.norm(dim=1).max() <= 1 + 1e-6
    touched = torch.tensor([row in (2, 7) for row in range(9)])
    assert torch.equal(model.entities[~touched], before[~touched])
    torch.testing.assert_close(model.entities[touched], short_rows(before[touched] - 5.0))


def test_state_survives_saving_and_loading() -> None:
    model = TransR(9, 4, 5, 3)
    first, second = (RowAdagrad(model, {}, learning_rate=0.1) for _ in range(2))
    first.step({"relations": RowGradient(torch.tensor([1]), torch.full((1, 3), 2.0))})
    second.load(first.state())
    assert second.squares["relations"].tolist() == [[0, 0, 0], [4, 4, 4], [0, 0, 0], [0, 0, 0]]


def test_sums_of_rows() -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    places = torch.randint(0, 6, (20,), generator=generator)
    targets = torch.randint(0, 5, (20,), generator=generator) * 2
    signs = torch.randint(0, 2, (20,), generator=generator, dtype=torch.float64) * 2 - 1
    found = sum_rows(values, places, targets, signs)
    assert found.rows.tolist() == sorted(set(targets.tolist()))
    for row, total in zip(found.rows.tolist(), found.values, strict=True):
        plain = sum(
            sign * values[place] for place, target, sign in zip(places, targets, signs, strict=True) if target == row
        )
        torch.testing.assert_close(total, plain)
    nothing = torch.empty(0, dtype=torch.int64)
    assert sum_rows(values, nothing, nothing, signs[:0]).values.shape == (0, 4)
