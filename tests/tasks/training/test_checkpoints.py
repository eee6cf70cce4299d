"""Checkpoints: atomic, kept by number and by score, and found in spite of a damaged one."""

from __future__ import annotations

import logging
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import StorageFullError, UserError
from tasks.training.checkpoints import Checkpoints, score_of


def state(step: int, size: int = 8) -> dict[str, Any]:
    rest: dict[str, Any] = {"position": 0, "identity": {}, "optimizer": {}, "skipped": None, "held_out": {}}
    return {"format": 1, "step": step, "model": {"w": torch.full((size,), float(step))}, **rest}


def steps(checkpoints: Checkpoints) -> list[int]:
    return [record.step for record in checkpoints.records()]


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}/run"


def test_written_state_is_read_back(storage: str) -> None:
    checkpoints = Checkpoints(storage, "run")
    assert checkpoints.newest() is None
    checkpoints.write(4, state(4), {"mlm_loss": 2.5})
    checkpoints.write(8, state(8), {"mlm_loss": float("nan")})
    found = Checkpoints(storage, "run").newest()
    assert found is not None
    record, loaded = found
    assert record.step == loaded["step"] == 8
    assert record.figures["mlm_loss"] != record.figures["mlm_loss"]
    assert torch.equal(checkpoints.load(checkpoints.at(4))["model"]["w"], state(4)["model"]["w"])
    assert "step-000000008" in checkpoints.path(8)


def test_checkpoint_replaces_one_of_the_same_step(storage: str) -> None:
    checkpoints = Checkpoints(storage, "run")
    checkpoints.write(4, state(3), {})
    checkpoints.write(4, state(4), {"mlm_loss": 1.0})
    assert checkpoints.load(checkpoints.at(4))["step"] == 4
    assert checkpoints.at(4).figures == {"mlm_loss": 1.0}


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "record"])
def test_damaged_checkpoint_is_logged_and_the_one_before_is_used(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(str(tmp_path), "run")
    for step in (4, 8):
        checkpoints.write(step, state(step), {})
    file = Path(checkpoints.path(8)) / ("checkpoint.json" if damage == "record" else "state.pt")
    data = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data[:-9] if damage in ("cut", "record") else data)
    with caplog.at_level(logging.WARNING):
        found = checkpoints.newest()
    assert found is not None and found[0].step == 4
    assert "step-000000008" in caplog.text


def test_checkpoint_of_another_run_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Checkpoints(str(tmp_path), "other").write(4, state(4), {})
    assert Checkpoints(str(tmp_path), "run").newest() is None
    assert "belongs to another run, other" in caplog.text


def test_half_written_checkpoint_is_ignored_and_swept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), "run")
    checkpoints.write(4, state(4), {})
    for name in (".writing-1", "step-000000008"):  # killed while writing; killed while deleting
        folder = tmp_path / "checkpoints" / name
        folder.mkdir()
        (folder / "state.pt").write_bytes(b"half")
    backup, exported = (tmp_path / "checkpoints" / f"step-000000004{end}" for end in (".tar", "-exported"))
    backup.write_bytes(b"of the user")
    exported.mkdir()
    (tmp_path / "checkpoints" / "step-000000016").write_bytes(b"a file")
    assert steps(checkpoints) == [4]
    checkpoints.sweep()
    assert backup.exists() and exported.exists()
    assert not (tmp_path / "checkpoints" / ".writing-1").exists()
    checkpoints.write(8, state(8), {})
    assert steps(checkpoints) == [4, 8]


def test_remains_of_a_killed_write_are_swept_on_any_store(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem, root = fsspec.core.url_to_fs(storage)
    checkpoints = Checkpoints(storage, "run")
    for step in (4, 8):
        checkpoints.write(step, state(step), {})
    half = f"{root}/checkpoints/step-000000008"
    filesystem.rm_file(f"{half}/checkpoint.json")
    checkpoints.sweep()
    assert not filesystem.exists(f"{half}/state.pt")
    assert steps(checkpoints) == [4] and checkpoints.load(checkpoints.at(4))["step"] == 4
    with monkeypatch.context() as unreachable, pytest.raises(OSError, match="no answer"):
        unreachable.setattr(
            type(filesystem), "info", lambda *given, **named: (_ for _ in ()).throw(OSError("no answer"))
        )
        checkpoints.sweep()
    assert steps(checkpoints) == [4]


def test_full_disk_error_leaves_earlier_checkpoints_intact(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), "run")
    checkpoints.write(4, state(4), {})
    checkpoints.write(8, state(8), {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageFullError, match=r"step 12 could not be written.*intact \(4, 8\)"):
            checkpoints.write(12, state(12, size=100_000), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000000004", "step-000000008"]
    found = checkpoints.newest()
    assert found is not None and found[1]["step"] == 8


def test_pruning_keeps_the_newest_and_the_best(storage: str) -> None:
    checkpoints = Checkpoints(storage, "run")
    losses = {1: 5.0, 2: 1.0, 3: float("nan"), 4: 3.0, 5: 2.0, 6: 4.0, 7: 4.5}
    for step, loss in losses.items():
        checkpoints.write(step, state(step), {"mlm_loss": loss, "mlm_accuracy": -loss})
        checkpoints.prune(2, 2, None)
    assert steps(checkpoints) == [2, 5, 6, 7]
    assert [record.step for record in checkpoints.best(2, "mlm_accuracy")] == [2, 5]
    checkpoints.prune(1, 0, None)
    assert steps(checkpoints) == [7]


def test_missing_step_error_lists_the_steps(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), "run")
    with pytest.raises(UserError, match=r"no checkpoint\. Steps with a checkpoint: none"):
        checkpoints.at()
    checkpoints.write(4, state(4), {})
    with pytest.raises(UserError, match=r"no checkpoint of step 5\. Steps with a checkpoint: 4"):
        checkpoints.at(5)


@given(st.dictionaries(st.sampled_from(["mlm_loss", "rtd_loss", "rtd_accuracy"]), st.floats(0, 9), min_size=3))
def test_the_score_is_lower_for_lower_losses_and_higher_rates(figures: dict[str, float]) -> None:
    assert score_of(figures, None) == pytest.approx(figures["mlm_loss"] + figures["rtd_loss"])
    assert score_of(figures, "rtd_loss") == figures["rtd_loss"]
    assert score_of(figures, "rtd_accuracy") == -figures["rtd_accuracy"]


def test_unknown_figure_error_lists_the_figures() -> None:
    with pytest.raises(UserError, match=r"cluster\.best_by='f1'.*Choose from mlm_loss"):
        score_of({"mlm_loss": 1.0}, "f1")
