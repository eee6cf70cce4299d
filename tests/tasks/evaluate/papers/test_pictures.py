"""The pictures of the comparison: sizes by their names, and panels that say what was not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tasks.evaluate.papers.cell import CellScores
from tasks.evaluate.papers.cells import Cell
from tasks.evaluate.papers.pictures import by_records, over_time


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    figures: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: figures.append(self))
    return figures


def scores(task: str) -> CellScores:
    return CellScores(task, "", {1: 0.5, 2: 0.6}, {1: 0.5, 2: 0.6}, {1: np.ones((3, 1))}, 1.0)


def test_records_are_named_and_what_was_not_run_says_so(drawn: list[Any], tmp_path: Path) -> None:
    cells = {Cell("bert", "cmedtc", size): scores("cmedtc") for size in (300, 1_000, None)}
    by_records(cells, ("cmedtc", "cmedqq"), tmp_path / "x.png")
    done, missing = drawn[0].axes[:2]
    assert sorted(label.get_text() for label in done.get_xticklabels()) == ["1000", "300", "all"]
    assert [line.get_ydata().tolist() for line in done.lines] == [pytest.approx([55.0, 55.0, 55.0])] and not done.texts
    assert [text.get_text() for text in missing.texts] == ["not run yet"] and not missing.lines
    assert list(missing.get_xticks()) == []


def test_share_of_pre_training_begins_at_the_floor(drawn: list[Any], tmp_path: Path) -> None:
    cells = {Cell("random", "cmedtc", 300): scores("cmedtc"), Cell("bert", "cmedtc", 300): scores("cmedtc")}
    cells |= {Cell("bert", "cmedtc", 300, 0.25): scores("cmedtc")}
    over_time(cells, ("cmedtc",), tmp_path / "x.png")
    (line,) = drawn[0].axes[0].lines  # eHealth was not run
    assert line.get_xdata().tolist() == [0.0, 0.25, 1.0]


def test_models_are_drawn_without_a_floor_too(drawn: list[Any], tmp_path: Path) -> None:
    cells = {Cell("ehealth", "cmedtc", 300, share): scores("cmedtc") for share in (0.5, 0.25)}
    over_time(cells, ("cmedtc",), tmp_path / "x.png")
    (line,) = drawn[0].axes[0].lines
    assert line.get_xdata().tolist() == [0.25, 0.5] and line.get_label() == "eHealth"
