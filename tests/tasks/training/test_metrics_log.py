"""The metrics file: grows by whole lines, is cut back on resume, and can be followed while it grows."""

from __future__ import annotations

import contextlib
import math
import resource
import uuid
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import StorageFullError
from tasks.training import metrics_text
from tasks.training.curves import draw_curves
from tasks.training.follow import RunFollower, duration
from tasks.training.metrics_log import STEP, MetricsLog, TensorBoardLog, read_metrics, read_steps
from tasks.training.run_spec import RunSpec
from tests.support.synthetic_examples import training


def figures(step: int) -> dict[str, float]:
    return {"loss": 80.0 - step, "mlm": 5.0, "tokens_per_second": 1234.5}


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    return RunSpec(
        name="run",
        store="",
        examples="",
        storage=str(tmp_path / "run"),
        objective="ehealth",
        model={},
        training=training(),
        workers=1,
        cpus_per_worker=1,
        gpu=False,
    )


@pytest.mark.parametrize("root", ["local", "memory"])
def test_resume_drops_the_steps_that_are_taken_again(root: str, tmp_path: Path) -> None:
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


def test_nothing_is_lost_on_a_store_without_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """There "ab" writes anew, as on Google's. Every line comes, whether a part holds many or one."""
    opened = MemoryFileSystem._open
    monkeypatch.setattr(
        MemoryFileSystem,
        "_open",
        lambda self, path, mode="rb", **more: opened(self, path, mode.replace("a", "w"), **more),
    )
    for part_bytes in (1, 200, 1 << 18):
        monkeypatch.setattr(metrics_text, "PART_BYTES", part_bytes)
        path, taken = f"memory://{uuid.uuid4().hex}/metrics.jsonl", 0
        for resumed, last in ((0, 5), (3, 9), (9, 10), (4, 11)):
            log, taken = MetricsLog(path, resumed), resumed
            assert [entry["step"] for entry in read_metrics(path)] == list(range(1, resumed + 1))
            for step in range(taken + 1, last + 1):
                log(step, "train", figures(step))
            assert [entry["step"] for entry in read_metrics(path)] == list(range(1, last + 1))
        parts = MemoryFileSystem().ls(path.rpartition("/")[0], detail=False)
        assert len(parts) == {1: 11, 200: 5, 1 << 18: 3}[part_bytes]


def test_a_full_disk_is_told_and_no_curve_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_single_steps_stand_in_the_line_of_their_entry(tmp_path: Path) -> None:
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
    assert all(math.isnan(figures["rtd_recall"]) for _, figures in steps)
    MetricsLog(path, 3)
    assert [step for step, _ in read_steps(path)] == [1, 2]


def test_single_steps_are_no_tensorboard_events(tmp_path: Path) -> None:
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


def test_nothing_yet_is_no_error(tmp_path: Path, spec: RunSpec) -> None:
    assert read_metrics(str(tmp_path / "none.jsonl")) == []
    RunFollower(spec, lambda *arguments: pytest.fail("nothing to tell")).look()


def test_a_follower_tells_each_new_step_once_and_survives_a_resume(spec: RunSpec) -> None:
    told: list[tuple[str, int, int, str]] = []
    follower = RunFollower(spec, lambda name, done, total, note="": told.append((name, done, total, note)))
    log = MetricsLog(spec.metrics_path, 0)
    for step in (1, 2):
        log(step, "train", figures(step))
    follower.look()
    follower.look()
    log(3, "train", figures(3))
    follower.look()
    assert [done for _, done, _, _ in told] == [2, 3]
    assert told[0] == ("train", 2, 12, "1,234 tokens/s, loss 78, mlm 5")
    MetricsLog(spec.metrics_path, 1)(2, "train", figures(20))
    follower.look()
    assert told[-1][1] == 2


def test_a_run_goes_on_where_it_cannot_be_watched(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk or a store that gives no answer for a while, and a listener that fails."""
    told: list[int] = []

    def listen(name: str, done: int, total: int, note: str = "") -> None:
        if done == 3:
            raise RuntimeError("the server restarts")
        told.append(done)

    follower, log = RunFollower(spec, listen), MetricsLog(spec.metrics_path, 0)
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "cat_file", lambda *given, **named: (_ for _ in ()).throw(OSError(5, "broken")))
        log(1, "train", figures(1))
        for _ in range(3):
            follower.look()
    assert told == [] and [record.levelname for record in caplog.records] == ["WARNING"]
    for step in (2, 3, 4):
        log(step, "train", figures(step))
        follower.look()
    assert told == [2, 4] and len(caplog.records) == 2
    with monkeypatch.context() as cancelled, pytest.raises(KeyboardInterrupt):
        cancelled.setattr(follower, "_on_progress", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        log(5, "train", figures(5))
        follower.look()


def test_the_time_that_is_left_follows_from_the_steps_since_the_first_look(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    follower = RunFollower(spec, lambda name, done, total, note="": told.append(note))
    log, clock = MetricsLog(spec.metrics_path, 0), iter([100.0, 220.0, 230.0, 240.0])
    monkeypatch.setattr("tasks.training.follow.time.monotonic", lambda: next(clock))
    for look, step in enumerate((2, 4, 3, 3)):  # the last two see a run that went back, one of them to the same step
        if step == 3:
            MetricsLog(spec.metrics_path, 0)
        log(step, "train", figures(look))
        follower.look()
    assert [note.split(" left")[0] for note in told[1:2]] == ["8 min"]
    assert all("left" not in told[number] for number in (0, 2, 3))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=6))
def test_a_follower_misses_nothing_however_the_run_goes_back_and_on(moves: list[tuple[int, int]]) -> None:
    storage = f"memory://followed/{uuid.uuid4().hex}"
    spec = RunSpec(
        name="run", store="", examples="", storage=storage, objective="ehealth", model={}, training=training(),
        workers=1, cpus_per_worker=1, gpu=False,
    )  # fmt: skip
    told: list[tuple[int, str]] = []
    follower = RunFollower(spec, lambda name, done, total, note="": told.append((done, note)))
    step, lives = 0, 0
    for back, forward in moves:  # the worker starts again at a checkpoint, and takes steps before the next look
        lives, step = lives + 1, max(0, step - back)
        log = MetricsLog(spec.metrics_path, step)
        for _ in range(forward):
            step += 1
            log(step, "train", {"loss": 1 / (lives + step), "tokens_per_second": 10.0**lives})
        follower.look()
        assert told[-1][0] == step and f"{10**lives:,} tokens/s, loss {1 / (lives + step):.3g}" in told[-1][1]
    assert len(told) == len(moves)
    follower.look()
    assert len(told) == len(moves)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (3_700, "1 h 02 min"), (7_140, "1 h 59 min"), (360_000, "4 d 4 h")],
)
def test_time_is_told_as_a_person_does(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_curves_are_drawn_from_what_there_is(tmp_path: Path) -> None:
    entries = [{"step": step, "split": "train", "figures": {"mlm": 5.0 / step, "rtd": 0.5}} for step in (1, 2, 3)]
    entries.append({"step": 3, "split": "held_out", "figures": {"mts_accuracy": 0.4, "mts_chance": 1 / 6}})
    draw_curves(entries, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
