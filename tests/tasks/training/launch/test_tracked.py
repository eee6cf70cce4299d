"""Curves of long work reach the trackers while it runs, and once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.training.launch.tracked import curves_tracked
from tasks.training.metrics_log import MetricsLog
from tests.support.processes.counting_work import CountingWork


def test_curves_are_tracked_while_the_work_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_TRACKING", "tensorboard")
    work = CountingWork(name="0123456789abcdef", storage=str(tmp_path))
    with curves_tracked(work):
        log = MetricsLog(work.metrics_path, 0)
        for step in range(1, 4):
            log(step, "train", {"loss": 1.0 / step})
            log(step, "held_out", {"loss": 2.0 / step})
    # A killed run is resumed from step 2: what it does again is not written again.
    with curves_tracked(work):
        log = MetricsLog(work.metrics_path, 2)
        log(3, "train", {"loss": 1.0 / 3})
        log(4, "train", {"loss": 1.0 / 4})
    folder = tmp_path / "home/.tracking/tensorboard/count/count 01234567"
    events = b"".join(file.read_bytes() for file in folder.glob("events.*"))
    assert events.count(b"train/loss") == 4 and events.count(b"held_out/loss") == 3
    assert json.loads((folder / "0123456789abcdef.json").read_text()) == {"train": 4, "held_out": 3}


def test_without_the_setting_nothing_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_TRACKING", raising=False)
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    with curves_tracked(CountingWork(name="0123456789abcdef", storage=str(tmp_path))):
        pass
    assert not (tmp_path / "home").exists()
