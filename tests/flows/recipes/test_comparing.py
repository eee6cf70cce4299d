"""Settings of the comparison of papers: budgets and batches that are the same for every model."""

from __future__ import annotations

from typing import Any

import pytest

from flows.recipes.comparing import PAST_ALL, load_papers
from infra.errors import UserError
from tasks.evaluate.papers.cells import Cell
from tasks.evaluate.papers.models import BY_NAME

FLOPS = {"flops": 6e14, "more_flops": 1.5e14}


def training(given: dict[str, Any], model: str) -> dict[str, Any]:
    return load_papers(given).preset(BY_NAME[model], {}).train.training


def test_a_stage_has_one_budget_of_one_kind() -> None:
    first, second = training({"seconds": 60.0, "more_seconds": 15.0}, "bert"), training(FLOPS, "smedbert")
    assert (first["cpu_seconds"], first["steps"]) == (60.0, PAST_ALL) and "flops" not in first
    assert second["flops"] == 1.5e14 and "cpu_seconds" not in second
    assert training(FLOPS, "ehealth")["flops"] == training(FLOPS, "electra")["flops"] == 6e14


@pytest.mark.parametrize(
    ("model", "size"), [("bert", 64), ("electra", 64), ("ehealth", 32), ("ehealth-without-csp", 32)]
)
def test_rows_of_a_step_count_every_view(model: str, size: int) -> None:
    assert training(FLOPS | {"rows": 64}, model)["batch_size"] == size


def test_rows_are_the_presets_if_none_are_given() -> None:
    assert (training({}, "bert")["batch_size"], training({}, "ehealth")["batch_size"]) == (16, 8)


def test_fine_tunings_at_a_time_share_a_gpu_and_change_no_result() -> None:
    cell = Cell("bert", "cmedtc", 300)
    alone, together = (load_papers(given).finetuning(cell) for given in ({}, {"at_once": 8}))
    assert (alone.resources.trials_at_once, alone.resources.trials_per_gpu) == (1, 1)
    assert (together.resources.trials_at_once, together.resources.trials_per_gpu) == (8, 8)
    assert alone.model_dump(mode="json") == together.model_dump(mode="json")


def test_the_mean_of_the_tokens_answers_about_texts_and_pairs_alone() -> None:
    recipe = load_papers({}, {"tuning.pooling": "mean"})
    found = {name: recipe.finetuning(Cell("bert", name, 300)).pooling for name in ("cmedtc", "cmedqq", "cmedqaner")}
    assert found == {"cmedtc": "mean", "cmedqq": "mean", "cmedqaner": "cls"}


@pytest.mark.parametrize(
    ("given", "message"),
    [({"flops": 1e12}, "give both, or neither"), ({"flops": -1.0, "more_flops": 1.0}, "flops"), ({"rows": 1}, "rows")],
)
def test_impossible_budgets_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_papers(given)
