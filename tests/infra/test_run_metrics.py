"""Figures of runs for Prometheus, and the dashboard that asks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from flows.service.metrics import Metrics
from infra.artifacts import ArtifactStore
from infra.run_metrics import FlowMetrics, TrainingMetrics
from infra.runs import recording
from infra.settings import REPOSITORY, Settings
from infra.stage import StageParams, stage
from infra.tracking import tracked
from tasks.runner import stage_runner

DASHBOARD = REPOSITORY / "infra" / "grafana" / "yiwen.json"


class CountParams(StageParams):
    fail: bool = False


@stage(name="count_letters", version=1, params=CountParams)
def count_letters(inputs: Any, params: CountParams, out: Any) -> None:
    if params.fail:
        raise ValueError("broken")
    out.map(count_part, [1, 2, 3])


def count_part(part: Any, number: int) -> None:
    part.count("letters", number)


def figures(file: Path) -> dict[tuple[str, ...], float]:
    """Return the samples of a file by name and values of labels, these in the order of their names."""
    families = text_string_to_metric_families(file.read_text(encoding="utf-8"))
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in families
        for one in family.samples
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YIWEN_METRICS", str(tmp_path / "metrics"))
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return tmp_path / "metrics"


def run(fail: bool = False) -> None:
    with recording("corpus/refresh", []), stage_runner(Settings.from_environment()) as runner:
        runner(count_letters, CountParams(fail=fail))


def test_stages_of_a_flow_are_in_its_file(folder: Path, tmp_path: Path) -> None:
    run()
    found = figures(folder / "yiwen_corpus_refresh.prom")
    one = ("corpus/refresh", "count_letters")
    made = ArtifactStore(tmp_path / "store").latest("count_letters")
    assert made is not None
    assert found["yiwen_stage_units_done", *one] == found["yiwen_stage_units", *one] == 3
    assert found["yiwen_stage_seconds", *one] == made.manifest.wall_seconds
    assert found["yiwen_stage_state", *one, "finished"] == 1 and found["yiwen_stage_state", *one, "running"] == 0
    run()
    assert figures(folder / "yiwen_corpus_refresh.prom")["yiwen_stage_state", *one, "reused"] == 1
    with pytest.raises(ValueError, match="broken"):
        run(fail=True)
    assert figures(folder / "yiwen_corpus_refresh.prom")["yiwen_stage_state", *one, "failed"] == 1
    assert [file.name for file in folder.iterdir()] == ["yiwen_corpus_refresh.prom"], "no half-written file"


def test_a_folder_that_takes_no_file_stops_no_run(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("a file")
    run()
    assert "YIWEN_METRICS" in caplog.text and "the work continues" in caplog.text


def test_trainings_are_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_TRACKING", raising=False)
    with tracked("train", "ehealth", "0123456789", {}) as runs:
        for one in runs:
            one.log("train", [(1, {"loss": 3.0}), (2, {"loss": 2.0})])
            one.log("held_out", [(2, {"loss": 2.5})])
    found = figures(folder / "yiwen_training_train.prom")
    assert found["yiwen_training_figure", "loss", "train", "01234567", "train"] == 2.0
    assert found["yiwen_training_step", "train", "01234567", "held_out"] == 2


def test_nothing_is_written_without_the_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_METRICS")
    run()
    assert not folder.exists()


def test_the_dashboard_asks_for_metrics_that_exist(tmp_path: Path) -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    registries = (
        FlowMetrics(tmp_path, "f").registry,
        TrainingMetrics(tmp_path, "k", "r").registry,
        Metrics().registry,
    )
    known = {name for registry in registries for name in names(registry)}
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    # matches "yiwen_stage_seconds"; the names of labels do not begin so
    used = {name for expression in asked for name in re.findall(r"yiwen_\w+", expression)}
    assert len(asked) >= 8 and used <= known, used - known
    assert {"yiwen_stage_seconds", "yiwen_training_figure", "yiwen_requests_total"} <= used


def names(registry: CollectorRegistry) -> Iterator[str]:
    """Yield the names of all samples that a registry can have."""
    for family in registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        yield from (family.name + suffix for suffix in suffixes)


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert board["uid"] == "yiwen" and board["schemaVersion"] >= 36 and board["id"] is None
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${source}" and target["expr"].count("(") == target["expr"].count(")")
    assert [one["name"] for one in board["templating"]["list"]] == ["source", "flow"]
