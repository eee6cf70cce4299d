"""The paired test between two starts, and the order of the work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tasks.evaluate.papers.cell import CellScores
from tasks.evaluate.papers.cells import Cell, ordered_cells
from tasks.evaluate.papers.models import BY_NAME, MODELS, RANDOM, needed
from tasks.evaluate.papers.paired import p_of_seeds, paired


def cell(scores: Sequence[float], right: np.ndarray | None = None, task: str = "cmedtc") -> CellScores:
    """A cell whose seed i has the i-th score, with one column of right answers per seed."""
    shares = np.zeros((50, len(scores))) if right is None else right
    tallies = {seed: np.stack([shares[:, seed], np.ones(len(shares))], 1) for seed in range(len(scores))}
    return CellScores(task, "", dict(enumerate(scores)), dict(enumerate(scores)), tallies, 1.0)


@pytest.mark.parametrize("differences", [[0.05, 0.02, 0.04], [0.1, -0.1], [-0.3, -0.2, -0.25, -0.28, -0.1]])
def test_p_of_seeds_is_students(differences: list[float]) -> None:
    assert p_of_seeds(differences) == pytest.approx(ttest_1samp(differences, 0.0).pvalue)


def test_seeds_without_spread() -> None:
    assert math.isnan(p_of_seeds([0.1]))
    assert (p_of_seeds([0.0, 0.0]), p_of_seeds([0.1, 0.1])) == (1.0, 0.0)


def test_difference_is_clear_only_if_both_tests_say_so() -> None:
    draw = np.random.default_rng(0)
    low, high = (draw.random((400, 3)) < share for share in (0.5, 0.8))
    steady = cell([0.80, 0.81, 0.79], high), cell([0.50, 0.51, 0.50], low)
    found = paired(*steady)
    assert found is not None and found.is_clear and found.seeds == 3
    assert found.difference == pytest.approx(0.29667, abs=1e-5) and found.low < 0.3 < found.high
    # The same records, but seeds that disagree: one of them lost.
    unsteady = paired(cell([0.80, 0.95, 0.40], high), cell([0.50, 0.51, 0.50], low))
    assert unsteady is not None and unsteady.p_records < 0.05 < unsteady.p_seeds and not unsteady.is_clear
    # Seeds that agree, but on too few records to tell.
    few = paired(cell([0.80, 0.81, 0.79], high[:4]), cell([0.50, 0.51, 0.50], high[:4]))
    assert few is not None and few.p_records > 0.05 and not few.is_clear


def test_starts_with_other_seeds_or_records_are_not_compared() -> None:
    one = cell([0.5, 0.6])
    assert paired(one, cell([0.5, 0.6], np.zeros((7, 2)))) is None
    assert paired(one, cell([0.5, 0.6], task="cmedqq")) is None
    assert paired(CellScores("cmedtc", "", {8: 0.5}, {}, {8: np.zeros((50, 2))}, 1.0), one) is None


def test_floor_and_bert_with_300_records_come_first() -> None:
    cells = ordered_cells([RANDOM, *(model.name for model in MODELS)])
    assert len(set(cells)) == len(cells) == 12 * 5 * 4 + 2 * 3 * 5
    assert {(one.model, one.records, one.milestone) for one in cells[:10]} == {
        ("random", 300, None),
        ("bert", 300, None),
    }
    place = {one: number for number, one in enumerate(cells)}
    assert place[Cell("ehealth", "cehrner", 300)] < place[Cell("smedbert", "cmedic", 300)]
    assert place[Cell("bert", "cmedtc", 100)] < place[Cell("bert", "cmedic", None)]
    assert len({one.name for one in cells}) == len(cells)


def test_models_are_trained_after_what_they_start_from() -> None:
    assert [one.name for one in needed(("em-pap",))] == ["electra", "em-pap"]
    assert [one.name for one in needed(("random", "electra"))] == ["bert", "electra"]  # the floor is BERT's encoder
    assert all(BY_NAME[model.start].start is None for model in MODELS if model.start)
    assert all(other == RANDOM or other in BY_NAME for model in MODELS for other in model.against)
