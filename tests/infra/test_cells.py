"""Cells that a spreadsheet would run are made inert, reversibly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cells import inert, original


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        '=cmd|"/c calc"!A1',
        "+SUM(A1)",
        "-2+3",
        "@SUM(A1)",
        "＝1＋1",
        "\t1",
        "\r1",
        "\n1",
        "\x01",
        "-急性肺炎",
    ],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(cell: str) -> None:
    assert inert(cell) == f"'{cell}"
    assert inert(inert(cell)) == f"''{cell}"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("肺炎;=1+1", "肺炎;'=1+1"),
        ("a;-2+3;@SUM(A1)", "a;'-2+3;'@SUM(A1)"),
        ("a\t=1\n+cmd", "a\t'=1\n'+cmd"),
        ("=1;=2", "'=1;'=2"),
        ("\t=1", "'\t'=1"),
        ("\n=1", "'\n'=1"),
        ("a;-5.2;+1e3", "a;-5.2;+1e3"),
        ("a；=1", "a；=1"),
    ],
)
def test_what_a_locale_with_semicolons_would_run_gets_one_too(cell: str, shown: str) -> None:
    assert inert(cell) == shown
    assert original(shown) == cell


@pytest.mark.parametrize("cell", ["", "肺炎", "a=1", "-5.2", "+8613812345678", "-1e-3", "-", "--", "'quoted'", " =1"])
def test_everything_else_stays(cell: str) -> None:
    assert inert(cell) == cell


@given(st.text(alphabet="'=+-@＝\t;\n5肺a", max_size=8) | st.text())
def test_every_cell_can_be_read_back(cell: str) -> None:
    assert original(inert(cell)) == cell
    assert original(inert(inert(cell))) == inert(cell)
