"""The metrics file: grows by whole lines, is cut back on resume, and can be followed while it grows."""

from __future__ import annotations

import contextlib
import math
import resource
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from infra.errors import StorageFullError
from tasks.training import metrics_log
from tasks.training.metrics_log import STEP, MetricsLog, TensorBoardLog, read_metrics, read_steps


def figures(step: int) -> dict[str, float]:
    return {"loss": 80.0 - step, "mlm": 5.0, "tokens_per_second": 1234.5}


@pytest.mark.parametrize("root", ["local", "memory"])
def test_resume_drops_steps_that_are_taken_again(root: str, tmp_path: Path) -> None:
    path = str(tmp_path / "metrics.jsonl") if root == "local" else "memory://metrics-test/metrics.jsonl"
    log = MetricsLog(path, 0)
    for step in (1, 2, 3):
        log(step, "train", figures(step))
    log(3, "held_out", {"mts_accuracy": 0.5})
    resumed = MetricsLog(path, 2)
    resumed(3, "train", figures(30))
    entries = read_metrics(path)
    assert [(entry["step"], entry["split"]) for entry in entries] == [(1, "train"), (2, "train"), (3, "train")]
    assert entries[-1]["figures"] == figures(30)


def test_no_line_is_lost_on_a_store_without_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening with "ab" overwrites there, as on Google's. Parts may hold many lines, or one."""
    opened = MemoryFileSystem._open
    monkeypatch.setattr(
        MemoryFileSystem,
        "_open",
        lambda self, path, mode="rb", **more: opened(self, path, mode.replace("a", "w"), **more),
    )
    for part_bytes in (1, 200, 1 << 18):
        monkeypatch.setattr(metrics_log, "PART_BYTES", part_bytes)
        path, taken = f"memory://{uuid.uuid4().hex}/metrics.jsonl", 0
        for resumed, last in ((0, 5), (3, 9), (9, 10), (4, 11)):
            log, taken = MetricsLog(path, resumed), resumed
            assert [entry["step"] for entry in read_metrics(path)] == list(range(1, resumed + 1))
            for step in range(taken + 1, last + 1):
                log(step, "train", figures(step))
            assert [entry["step"] for entry in read_metrics(path)] == list(range(1, last + 1))
        parts = MemoryFileSystem().ls(path.rpartition("/")[0], detail=False)
        assert len(parts) == {1: 11, 200: 5, 1 << 18: 3}[part_bytes]


def test_full_disk_error_loses_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "metrics.jsonl")
    log = MetricsLog(path, 0)
    for step in (1, 2, 3):
        log(step, "train", figures(step))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    try:
        resumed = MetricsLog(path, 2)
        with pytest.raises(StorageFullError, match=r"No space left while writing .*metrics\.jsonl"):
            for step in (3, 4):
                resumed(step, "train", figures(step))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [entry["step"] for entry in read_metrics(path)][:2] == [1, 2]
    MetricsLog(path, 2)(3, "train", figures(3))
    assert [entry["step"] for entry in read_metrics(path)] == [1, 2, 3]


def test_a_kill_at_the_start_loses_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(str(path), 0)
    for step in (1, 2, 3):
        log(step, "train", figures(step))
    kept = b"".join(path.read_bytes().splitlines(keepends=True)[:2])

    class Killed(BaseException):
        pass

    def kill(*given: object, **named: object) -> None:
        raise Killed

    for place in ("os.truncate", "builtins.open", "fsspec.implementations.local.LocalFileOpener.write"):
        with monkeypatch.context() as patched:
            patched.setattr(place, kill)
            with contextlib.suppress(Killed):
                MetricsLog(str(path), 2)
        assert path.read_bytes().startswith(kept), place


def test_single_steps_are_in_the_line_of_their_entry(tmp_path: Path) -> None:
    path = str(tmp_path / "metrics.jsonl")
    log = MetricsLog(path, 0)
    for last in (2, 4):
        for step in (last - 1, last):
            log(step, STEP, {"loss": 1 / (3 * step), "rtd_recall": math.nan} if step != 4 else {"loss": 0.25})
        log(last, "train", figures(last))
        log(last, "held_out", {"mts_accuracy": 0.5})
    assert len(Path(path).read_bytes().splitlines()) == 4
    assert [entry["step"] for entry in read_metrics(path)] == [2, 2, 4, 4]
    assert read_metrics(path)[0] == {"step": 2, "split": "train", "figures": figures(2)}
    steps = list(read_steps(path))
    assert [step for step, _ in steps] == [1, 2, 3, 4]
    assert [figures["loss"] for _, figures in steps] == pytest.approx([1 / 3, 1 / 6, 1 / 9, 0.25], rel=1e-6)
    assert all(math.isnan(figures["rtd_recall"]) for _, figures in steps[:3])
    assert "rtd_recall" not in steps[3][1]  # a step of another task has none
    MetricsLog(path, 3)
    assert [step for step, _ in read_steps(path)] == [1, 2]


def test_single_steps_are_not_tensorboard_events(tmp_path: Path) -> None:
    log = TensorBoardLog(str(tmp_path), 0)
    sizes = []
    for split in (STEP, "train"):
        log(1, split, figures(1))
        sizes.append(sum(file.stat().st_size for file in (tmp_path / TensorBoardLog.FOLDER).iterdir()))
    assert sizes[1] > sizes[0]


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsLog(str(path), 0)(1, "train", figures(1))
    with path.open("ab") as file:
        file.write(b'{"step": 2, "spl')
    assert [entry["step"] for entry in read_metrics(str(path))] == [1]


def test_a_missing_file_has_no_entries(tmp_path: Path) -> None:
    assert read_metrics(str(tmp_path / "none.jsonl")) == []
