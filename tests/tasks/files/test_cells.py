"""Cells that a spreadsheet would run are made inert, reversibly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.files.cells import inert, original


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        '=cmd|"/c calc"!A1',
        "+SUM(A1)",
        "-2+3",
        "@SUM(A1)",
        "＝1＋1",
        "\t=1",
        "\r=1",
        "\n=1",
        "\x01",
        "-急性肺炎",
    ],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(cell: str) -> None:
    assert inert(cell) == f"'{cell}"
    assert inert(inert(cell)) == f"''{cell}"


@pytest.mark.parametrize("cell", ["", "肺炎", "a=1", "-5.2", "+8613812345678", "-1e-3", "-", "--", "'quoted'", " =1"])
def test_everything_else_stays(cell: str) -> None:
    assert inert(cell) == cell


@given(st.text(alphabet="'=+-@＝\t5肺a", max_size=6) | st.text())
def test_every_cell_can_be_read_back(cell: str) -> None:
    assert original(inert(cell)) == cell
    assert original(inert(inert(cell))) == inert(cell)
