"""Following long work: each step is reported once, through restarts and failures, with the time left."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.training.launch.follow import RunFollower, rough_duration
from tasks.training.metrics_log import MetricsLog
from tasks.training.run_spec import RunSpec
from tests.support.training.synthetic_examples import training


def figures(step: int) -> dict[str, float]:
    return {"loss": 80.0 - step, "mlm": 5.0, "tokens_per_second": 1234.5}


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    return RunSpec(
        name="run",
        store="",
        sources={},
        storage=str(tmp_path / "run"),
        objective="ehealth",
        model={"vocab_size": 100},
        training=training(),
        workers=1,
        cpus_per_worker=1,
        gpu=False,
    )


def test_no_metrics_file_is_no_progress(spec: RunSpec) -> None:
    RunFollower(spec, lambda *arguments: pytest.fail("nothing to report")).look()


def test_each_new_step_is_reported_once_and_a_resume_is_followed(spec: RunSpec) -> None:
    reported: list[tuple[str, int, int, str]] = []
    follower = RunFollower(spec, lambda name, done, total, note="": reported.append((name, done, total, note)))
    log = MetricsLog(spec.metrics_path, 0)
    for step in (1, 2):
        log(step, "train", figures(step))
    follower.look()
    follower.look()
    log(3, "train", figures(3))
    follower.look()
    assert [done for _, done, _, _ in reported] == [2, 3]
    assert reported[0] == ("train", 2, 12, "1,234 tokens/s, loss 78, mlm 5")
    MetricsLog(spec.metrics_path, 1)(2, "train", figures(20))
    follower.look()
    assert reported[-1][1] == 2


def test_run_continues_while_it_cannot_be_watched(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For a while the disk or store does not answer, or the listener fails."""
    reported: list[int] = []

    def listen(name: str, done: int, total: int, note: str = "") -> None:
        if done == 3:
            raise RuntimeError("the server restarts")
        reported.append(done)

    follower, log = RunFollower(spec, listen), MetricsLog(spec.metrics_path, 0)
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "cat_file", lambda *given, **named: (_ for _ in ()).throw(OSError(5, "broken")))
        log(1, "train", figures(1))
        for _ in range(3):
            follower.look()
    assert reported == [] and [record.levelname for record in caplog.records] == ["WARNING"]
    for step in (2, 3, 4):
        log(step, "train", figures(step))
        follower.look()
    assert reported == [2, 4] and len(caplog.records) == 2
    with monkeypatch.context() as cancelled, pytest.raises(KeyboardInterrupt):
        cancelled.setattr(follower, "_on_progress", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        log(5, "train", figures(5))
        follower.look()


def test_time_left_follows_from_the_steps_since_the_first_look(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    follower = RunFollower(spec, lambda name, done, total, note="": reported.append(note))
    log, clock = MetricsLog(spec.metrics_path, 0), iter([100.0, 220.0, 230.0, 240.0])
    # The module's own clock: threads of other tests read the one of the process.
    monkeypatch.setattr("tasks.training.launch.follow.time", SimpleNamespace(monotonic=lambda: next(clock)))
    for look, step in enumerate((2, 4, 3, 3)):  # the last two see a run that went back, one of them to the same step
        if step == 3:
            MetricsLog(spec.metrics_path, 0)
        log(step, "train", figures(look))
        follower.look()
    assert [note.split(" left")[0] for note in reported[1:2]] == ["8 min"]
    assert all("left" not in reported[number] for number in (0, 2, 3))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=6))
def test_nothing_is_missed_however_the_run_goes_back_and_on(moves: list[tuple[int, int]]) -> None:
    storage = f"memory://followed/{uuid.uuid4().hex}"
    spec = RunSpec(
        name="run", store="", sources={}, storage=storage, objective="ehealth",
        model={"vocab_size": 100}, training=training(steps=30),
        workers=1, cpus_per_worker=1, gpu=False,
    )  # fmt: skip
    reported: list[tuple[int, str]] = []
    follower = RunFollower(spec, lambda name, done, total, note="": reported.append((done, note)))
    step, lives = 0, 0
    for back, forward in moves:  # the worker starts again at a checkpoint, and takes steps before the next look
        lives, step = lives + 1, max(0, step - back)
        log = MetricsLog(spec.metrics_path, step)
        for _ in range(forward):
            step += 1
            log(step, "train", {"loss": 1 / (lives + step), "tokens_per_second": 10.0**lives})
        follower.look()
        assert reported[-1][0] == step and f"{10**lives:,} tokens/s, loss {1 / (lives + step):.3g}" in reported[-1][1]
    assert len(reported) == len(moves)
    follower.look()
    assert len(reported) == len(moves)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (3_700, "1 h 02 min"), (7_140, "1 h 59 min"), (360_000, "4 d 4 h")],
)
def test_duration_reads_as_people_write_it(seconds: float, said: str) -> None:
    assert rough_duration(seconds) == said
