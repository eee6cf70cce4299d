"""Runs in MLflow and TensorBoard: nowhere unless asked for, continued by their key, never in the way of the work."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.tracking import flat, tracked

PARAMETERS = {"model": {"layers": 2}, "objective": "ehealth"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    # Set by the tracker itself, and undone after the test.
    for name in ("MLFLOW_DISABLE_TELEMETRY", "GIT_PYTHON_REFRESH"):
        monkeypatch.setenv(name, os.environ.get(name, "true" if "MLFLOW" in name else "quiet"))
    return tmp_path / "home"


def write(*steps: int, key: str = "k1") -> None:
    with tracked("train", "ehealth 1a2b", key, PARAMETERS) as runs:
        for run in runs:
            run.log("train", [(step, {"loss": 10.0 - step, "RTD*x": float(step)}) for step in steps])
            run.log("held_out", [(step, {"loss": 9.0 - step}) for step in steps])


def test_nothing_is_written_unless_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YIWEN_TRACKING", raising=False)
    with tracked("train", "a", "k", {}) as runs:
        assert runs == []
    assert not home.exists()


def test_mlflow_continues_the_run_of_the_same_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("YIWEN_TRACKING", "mlflow")
    write(1, 2)
    write(1, 2, 3)  # a resumed run: two steps are done again
    write(1, key="k2")
    client = mlflow.MlflowClient(f"sqlite:///{home}/.tracking/mlflow.db")
    group = client.get_experiment_by_name("train").experiment_id
    runs = {run.data.tags["yiwen.key"]: run for run in client.search_runs([group])}
    assert runs.keys() == {"k1", "k2"}
    run = runs["k1"]
    assert (run.info.run_name, run.info.status) == ("ehealth 1a2b", "FINISHED")
    assert run.data.params == {"model.layers": "2", "objective": "ehealth"}
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert sorted((one.step, one.value) for one in history) == [(1, 9.0), (2, 8.0), (3, 7.0)]
    assert {"train/RTD_x", "held_out/loss"} <= run.data.metrics.keys()


def test_tensorboard_continues_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YIWEN_TRACKING", "tensorboard")
    write(1, 2)
    write(2, 3)
    (folder,) = (home / ".tracking" / "tensorboard" / "train").iterdir()
    written = b"".join(file.read_bytes() for file in sorted(folder.glob("events.*")))
    assert written.count(b"train/loss") == 3
    assert (folder / "k1.json").read_text() == '{"train": 3, "held_out": 3}'


def test_a_failed_block_ends_its_run_as_failed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("YIWEN_TRACKING", "mlflow")
    with pytest.raises(RuntimeError, match="stopped"), tracked("train", "a", "k", {}) as runs:
        runs[0].log("train", [(1, {"loss": math.nan})])
        raise RuntimeError("stopped")
    client = mlflow.MlflowClient(f"sqlite:///{home}/.tracking/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("train").experiment_id])
    assert run.info.status == "FAILED"


def test_a_tracker_that_cannot_be_reached_is_a_warning(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("mlflow")
    home.mkdir()
    monkeypatch.setenv("YIWEN_TRACKING", "mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://here")
    with tracked("train", "a", "k", {}) as runs:
        assert runs == []
    assert "mlflow cannot record a" in caplog.text


@pytest.mark.parametrize(
    ("setting", "home_uri", "message"),
    [
        ("wandb", "", r"YIWEN_TRACKING='wandb' is unknown; give mlflow or tensorboard"),
        ("mlflow", "s3://bucket/yiwen", "needs a folder on this machine.*MLFLOW_TRACKING_URI"),
    ],
)
def test_wrong_settings_are_explained(
    setting: str, home_uri: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_TRACKING", setting)
    if home_uri:
        monkeypatch.setenv("YIWEN_HOME", home_uri)
    with pytest.raises(UserError, match=message), tracked("train", "a", "k", {}):
        pass


def test_settings_are_flattened() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {"a.b.c": 1, "a.d": [2], "e": None}
