"""A batch cut into micro-batches has the losses, gradients and held-out figures of the uncut one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.objectives import build
from models.objectives.ehealth.objective import EHealth
from models.objectives.parts.contrast import compare_views, compare_views_of
from tests.support.training.token_rows import TINY, random_rows

MakeRows = Callable[..., list[Any]]


def fresh(**options: Any) -> EHealth:
    torch.manual_seed(0)
    return build("ehealth", TINY | {"initializer_range": 0.1} | options)


def collate(objective: EHealth, rows: list[Any], indices: list[int]) -> Any:
    return objective.collate([rows[i] for i in indices], seed=5, step=7, row_indices=indices)


def step(objective: EHealth, batches: list[Any], cut: bool) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Values and gradients of one step."""
    objective.zero_grad()
    values: dict[str, float] = {}
    for batch, share in zip(batches, objective.survey(batches) if cut else [None], strict=True):
        found = objective(batch, share)
        found["loss"].backward()
        for name, value in found.items():
            values[name] = values.get(name, 0.0) + value.item()
    return values, {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}


def assert_same(
    cut: tuple[dict[str, float], dict[str, torch.Tensor]], whole: tuple[dict[str, float], dict[str, torch.Tensor]]
) -> None:
    """To 1e-6 of each value, and of each parameter's largest gradient (or of 1, if all are smaller)."""
    assert cut[0] == pytest.approx(whole[0], rel=1e-6, abs=1e-6)
    assert cut[1].keys() == whole[1].keys()
    for name, expected in whole[1].items():
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(
            cut[1][name] / scale, expected / scale, rtol=0, atol=1e-6, msg=lambda m, n=name: n + m
        )


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"csp_projection": True, "embedding_size": 16},
        {"csp_weight": 0.0},
        {"mts_weight": 0.0},
        {"rtd_weight": 0.0, "mts_weight": 0.0, "csp_weight": 0.0},
    ],
    ids=["paper", "projections", "no CSP", "no MTS", "MLM"],
)
def test_micro_batches_add_up_to_the_uncut_batch(size: int, options: dict[str, Any]) -> None:
    objective, rows = fresh(**options), random_rows([20, 12, 33, 12, 20, 40])
    order = [3, 0, 5, 1, 4, 2]
    cut = [collate(objective, rows, order[i : i + size]) for i in range(0, 6, size)]
    assert_same(step(objective, cut, True), step(objective, [collate(objective, rows, list(range(6)))], False))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.integers(0, 3))
def test_any_way_of_cutting_gives_the_same_step(owners: list[int], seed: int) -> None:
    objective, rows = fresh(), random_rows([9, 14, 5, 22, 14], seed=seed)
    cuts = [[row for row, owner in enumerate(owners) if owner == one] for one in sorted(set(owners))]
    cut = step(objective, [collate(objective, rows, indices) for indices in cuts], True)
    assert_same(cut, step(objective, [collate(objective, rows, list(range(5)))], False))


def test_held_out_figures_add_up_too(make_rows: MakeRows) -> None:
    objective, rows = fresh().eval(), make_rows([20, 12, 33, 12, 20, 40])
    cuts = [collate(objective, rows, indices) for indices in ([1, 4], [0], [2, 3, 5])]
    sums: dict[str, float] = {}
    for batch, share in zip(cuts, objective.survey(cuts), strict=True):
        for name, value in objective.metrics(batch, share).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    whole = objective.metrics(collate(objective, rows, list(range(6))))
    assert sums == pytest.approx({name: float(value) for name, value in whole.items()}, rel=1e-6)


def test_csp_within_micro_batches_only_is_another_loss_with_fewer_candidates(make_rows: MakeRows) -> None:
    objective, rows = fresh(csp_across_micro_batches=False), make_rows([20, 12, 33, 12, 20, 40])
    cuts = [collate(objective, rows, indices) for indices in ([1, 4], [0], [2, 3, 5])]
    values, _ = step(objective, cuts, True)
    alone = [objective(batch)["csp"].item() * len(batch.rows) for batch in cuts]
    assert values["csp"] == pytest.approx(sum(alone) / 12, rel=1e-5)
    whole = fresh()
    across, _ = step(whole, [collate(whole, rows, indices) for indices in ([1, 4], [0], [2, 3, 5])], True)
    assert across["csp"] > 1.5 * values["csp"]
    assert {name: across[name] for name in ("mlm", "rtd", "mts")} == pytest.approx(
        {name: values[name] for name in ("mlm", "rtd", "mts")}, rel=1e-6
    )


def test_cached_gradient_is_that_of_the_joint_comparison() -> None:
    """In float64, against autograd through all vectors at once."""
    torch.manual_seed(0)
    units = [torch.nn.functional.normalize(torch.randn(n, 8, dtype=torch.float64), dim=1) for n in (4, 2, 6)]
    joint = torch.cat(units).requires_grad_()
    compare_views(joint, 0.07).loss_sum.backward()
    leaves = [unit.clone().requires_grad_() for unit in units]
    found = [
        contrast.attached_to(leaf)
        for contrast, leaf in zip(compare_views_of(units, 0.07, gradient=True), leaves, strict=True)
    ]
    for contrast in found:
        contrast.loss_sum.backward()
        assert contrast.candidates == 11
    torch.testing.assert_close(torch.cat([leaf.grad for leaf in leaves]), joint.grad)
    assert sum(c.loss_sum.item() for c in found) == pytest.approx(compare_views(joint, 0.07).loss_sum.item())
    assert [len(c.correct_S) for c in found] == [4, 2, 6]
