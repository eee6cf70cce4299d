"""The table of a suite: the scores measured here, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

import polars as pl
import pytest

from tasks.downstream.catalogue import suite, task
from tasks.reports.suite import ReportSuiteParams, score_table

NAMES = tuple(spec.name for spec in suite("cblue"))


@dataclass(frozen=True)
class Scored:
    """A run with the main score of each split."""

    scores: Mapping[str, float]

    def scan(self, table: str) -> pl.LazyFrame:
        assert table == "scores"
        rows = [
            {"of": "best run", "split": split, "metric": "m", "main": True, "value": value, "low": None, "high": None}
            for split, value in self.scores.items()
        ]
        return pl.LazyFrame(rows)


def own_row(scores: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    params = ReportSuiteParams(title="cblue", model="toy", tasks=NAMES)
    runs: Any = {name: Scored(own) for name, own in scores.items()}
    table = score_table(params, runs)
    assert [row["own"] for row in table["rows"]] == [False] * (len(table["rows"]) - 1) + [True]
    return dict(zip(table["columns"], table["rows"][-1]["cells"], strict=True))


VALUES = {name: 0.5 + number / 30 for number, name in enumerate(NAMES)}


@pytest.mark.parametrize(
    ("splits", "note"),
    [(dict.fromkeys(NAMES, "dev"), " (dev)"), (dict.fromkeys(NAMES, "test"), ""),
     (dict.fromkeys(NAMES, "dev") | {"chip-cdn": "test"}, " (test and dev)")],
)  # fmt: skip
def test_the_average_is_the_mean_of_all_tasks(splits: dict[str, str], note: str) -> None:
    row = own_row({name: {splits[name]: value} for name, value in VALUES.items()})
    assert row["Avg."] == f"{100 * mean(VALUES.values()):.1f}{note}"
    for name, value in VALUES.items():
        assert row[f"{task(name).title} test"] == f"{100 * value:.1f}{' (dev)' if splits[name] == 'dev' else ''}"


@pytest.mark.parametrize("left_out", ["chip-cdn", "kuake-qqr"])
def test_without_a_task_there_is_no_average(left_out: str) -> None:
    row = own_row({name: {"dev": value} for name, value in VALUES.items() if name != left_out})
    assert row["Avg."] == row[f"{task(left_out).title} test"] == "–"


def test_a_run_without_a_score_leaves_an_empty_cell() -> None:
    scores = {name: {"dev": value} for name, value in VALUES.items()}
    row = own_row({**scores, "cmeee": {"other": 0.5}})
    assert row["CMeEE test"] == row["Avg."] == "–"
