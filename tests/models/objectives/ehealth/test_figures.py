"""Figures of a step and of held-out rows, counted by hand on ten tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from models.objectives import build
from models.objectives.ehealth.figures import held_out_sums, rates, step_counts, step_figures
from models.objectives.ehealth.terms import Pass
from models.objectives.parts.lm_head import HeadOutput

LOSSES = {"loss": 9.0, "mlm": 1.0, "rtd": 0.1, "mts": 0.15, "csp": 0.0}


@pytest.fixture
def ten_tokens(tiny: dict[str, Any]) -> tuple[Any, Any, Pass]:
    """Four tokens are selected and three replaced, of which RTD finds one at one half, and one it only suspects."""
    objective = build("ehealth", tiny)
    row = {"input_ids": [2, 7, 8, 9, 3], "word_starts": [1, 2, 3]}
    batch = objective.collate([row], seed=1, step=0)
    replaced_M = torch.tensor([True, True, False, True])
    labels_T = torch.zeros(10, dtype=torch.bool).index_fill(0, torch.tensor([1, 2, 7]), True)
    # A token is called replaced above 0, and suspected above -1.73.
    logits_T = torch.tensor([-9.0, 2, -1, -9, -9, 1, -1, -9, 3, -9])
    tied_RK = torch.tensor([[3.0, 1, 2], [2.0, 2, 1], [1.0, 4, 0]])  # right, a tie, wrong
    generator = HeadOutput(torch.tensor(4.0), torch.tensor([7, 8, 9, 7]), torch.zeros(4, 2).long(), torch.tensor(3))
    return objective.config, batch, Pass(generator, replaced_M, logits_T, labels_T, tied_RK)


def test_figures_of_a_step(ten_tokens: tuple[Any, Any, Pass]) -> None:
    _, batch, result = ten_tokens
    counts = {name: float(value) for name, value in step_counts(batch, result).items()}
    assert step_figures(LOSSES | counts) == LOSSES | {
        "replaced_rate": 0.3,
        "rtd_recall": pytest.approx(1 / 3),  # of three replaced tokens one is found
        "rtd_precision": pytest.approx(1 / 3),  # of three found tokens one is replaced
        "mts_accuracy": pytest.approx(1 / 3),  # a tie is not right
    }


def test_precision_is_of_the_found_and_recall_of_the_replaced(ten_tokens: tuple[Any, Any, Pass]) -> None:
    _, batch, result = ten_tokens
    fewer = result.rtd_logits_T.clone()
    fewer[8] = -5.0  # one false find less
    counts = {name: float(value) for name, value in step_counts(batch, changed(result, fewer)).items()}
    figures = step_figures(LOSSES | counts)
    assert figures["rtd_precision"] == 0.5 and figures["rtd_recall"] == pytest.approx(1 / 3)


def test_held_out_figures(ten_tokens: tuple[Any, Any, Pass]) -> None:
    config, batch, result = ten_tokens
    sums = held_out_sums(config, batch, result, None)
    sums["selected"] = torch.tensor(4.0)
    found = rates(config, sums)
    assert found["mlm_accuracy"] == 0.75 and found["mlm_loss"] == 1.0
    assert found["rtd_recall"] == pytest.approx(1 / 3) and found["rtd_precision"] == pytest.approx(1 / 3)
    # Suspected: tokens 1, 2, 5, 6 and 8; of three replaced ones two, of seven untouched ones three.
    assert found["rtd_balanced_accuracy"] == pytest.approx((2 / 3 + 4 / 7) / 2)
    assert found["mts_accuracy"] == pytest.approx(1 / 3)
    assert "csp_loss" not in found


def changed(result: Pass, logits_T: torch.Tensor) -> Pass:
    return Pass(result.generator, result.replaced_M, logits_T, result.rtd_labels_T, result.mts_scores_RK)


def test_a_token_as_probable_as_the_prior_is_not_suspected(ten_tokens: tuple[Any, Any, Pass]) -> None:
    config, batch, result = ten_tokens
    prior = torch.full((10,), math.log(config.mask_probability / (1 - config.mask_probability)))
    sums = held_out_sums(config, batch, changed(result, prior), None)
    assert sums["rtd_suspected_replaced"] == sums["rtd_suspected_untouched"] == 0
    sums = held_out_sums(config, batch, changed(result, prior + 1e-5), None)
    assert sums["rtd_suspected_replaced"] == 3 and sums["rtd_suspected_untouched"] == 7
