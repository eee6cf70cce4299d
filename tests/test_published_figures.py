"""Every figure of the tables of speed stands on the page that its row names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.figures import numbers, stands_in

PAGE = re.compile(r"\(((?:\.\./)?benchmarks/results/\w+/[\w.-]+\.md)\)")
"""`(benchmarks/results/text/encode_2026-11-21.md)`"""


def rows_with_figures() -> list[tuple[Path, str]]:
    readmes = {"README.md": "## Speed", "README.zh-CN.md": "## 速度"}
    tables = [(REPOSITORY / "docs", (REPOSITORY / "docs" / "speed.md").read_text(encoding="utf-8"))]
    for name, heading in readmes.items():
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        tables.append((REPOSITORY, text.partition(heading)[2].partition("\n## ")[0]))
    return [(folder, row) for folder, text in tables for row in text.splitlines() if row.startswith("| ")]


@pytest.mark.parametrize(
    ("folder", "row"), rows_with_figures(), ids=lambda one: one[2:50] if isinstance(one, str) else one.name
)
def test_a_figure_stands_on_the_page_of_its_row(folder: Path, row: str) -> None:
    ours, peers = row.split("|")[2:4]
    figures = [*numbers(ours), *numbers(peers)]
    if not figures:
        return
    pages = [(folder / name).resolve() for name in PAGE.findall(row)]
    assert pages, "no page is named"
    written = {number for page in pages for number in numbers(page.read_text(encoding="utf-8"))}
    assert [figure for figure in figures if not stands_in(figure, written)] == []


@pytest.mark.parametrize(
    ("figure", "page", "stands"),
    [
        ("0.910", "0.9100", True),
        ("0.91", "0.9149", True),
        ("0.92", "0.9149", False),
        (".895", "0.895", True),
        ("2420", "2421", False),
    ],
)
def test_figures_are_compared_as_rounded(figure: str, page: str, stands: bool) -> None:
    assert stands_in(figure, {page}) == stands
