"""Records of runs: two at once, a kill, a store that cannot be written, and one without locks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.runs import BEGUN, ENDED, RUNS, Ended, Recorder, begin_record, no_runs, noted, read_runs, recording
from infra.settings import REPOSITORY

FINISHED = Ended(outcome="finished", ended="2026-11-23T10:00:00+00:00", result="here", page="page")

CHILD = """
import sys
from infra.artifacts import ArtifactStore
from infra.runs import begin_record, noted, recording
with recording("corpus/refresh", ["corpus=x"]):
    begin_record(ArtifactStore(sys.argv[1]))
    with noted("clean", "f" * 32, ""):
        pass
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def child(store: ArtifactStore) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun a run and goes on until its standard input ends."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", CHILD, str(store.root)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def begun(store: ArtifactStore, flow: str = "a/b") -> Recorder:
    recorder = Recorder(flow, [])
    recorder.begin(store)
    return recorder


def states(store: ArtifactStore) -> list[str]:
    return [one.state for one in read_runs(store)]


def test_nothing_is_written_before_work_begins(store: ArtifactStore) -> None:
    with recording("corpus/refresh", ["corpus=x"]):
        pass
    assert not Path(store.base).exists() and read_runs(store) == []


def test_record_has_what_was_asked_for_and_what_was_done(store: ArtifactStore) -> None:
    with recording("corpus/refresh", ["corpus=x"]) as recorder:
        begin_record(store)
        begin_record(store)
        with noted("clean", "1" * 32, "") as reused:
            with noted("inner", "2" * 32, "clean/1"):
                pass
            reused[0] = True
        assert states(store) == ["running"]
        recorder.end(FINISHED)
    (run,) = read_runs(store)
    assert (run.begun.flow, run.begun.given, run.state, run.ended) == (
        "corpus/refresh",
        ["corpus=x"],
        "finished",
        FINISHED,
    )
    assert [(one.stage, one.reused, one.within) for one in run.stages] == [
        ("inner", False, "clean/1"),
        ("clean", True, ""),
    ]


def test_stage_that_failed_is_known_and_not_noted(store: ArtifactStore) -> None:
    with recording("a/b", []) as recorder:
        begin_record(store)
        with pytest.raises(ZeroDivisionError), noted("outer", "1" * 32, ""), noted("inner", "2" * 32, "outer/1"):
            _ = 1 / 0
    assert recorder.failed_stage == ("inner", "2" * 32) and recorder.stages == []


def test_two_runs_at_once_have_records_of_their_own(store: ArtifactStore, child: subprocess.Popen[str]) -> None:
    own = begun(store)
    assert states(store) == ["running", "running"]
    own.end(FINISHED)
    own.close()
    assert sorted(states(store)) == ["finished", "running"]


def test_killed_run_is_known_with_its_stages(store: ArtifactStore, child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    (run,) = read_runs(store)
    assert run.state == "killed" and [one.stage for one in run.stages] == ["clean"]


def test_deleting_waits_for_no_run_and_keeps_runs_from_beginning(
    store: ArtifactStore, child: subprocess.Popen[str]
) -> None:
    with no_runs(store) as alone:
        assert not alone
    child.kill()
    child.wait()
    with no_runs(store) as alone:
        assert alone
        second = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(store.root)],
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None and "this process waits" in second.stderr.readline()
        assert states(store) == ["killed"]
    assert second.stdout is not None and second.stdout.readline() == "begun\n"
    second.communicate("")


def test_records_are_private(store: ArtifactStore) -> None:
    begun(store).end(FINISHED)
    for path in (Path(store.base) / RUNS).rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_store_that_cannot_be_written_keeps_no_record_and_the_run_goes_on(store: ArtifactStore) -> None:
    Path(store.base).mkdir(parents=True)
    (Path(store.base) / RUNS).write_text("a file where the folder should be")
    recorder = begun(store)
    recorder.end(FINISHED)
    recorder.close()
    assert read_runs(store) == [] and recorder.store is store


def test_half_written_and_foreign_records_are_left_out(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    recorder = begun(store)
    recorder.end(FINISHED)
    recorder.close()
    (folder,) = (one for one in (Path(store.base) / RUNS).iterdir() if one.is_dir())
    (folder / "stages.jsonl").write_text('{"stage": "clean", "finger')  # a kill cut the line off
    assert [one.state for one in read_runs(store)] == ["finished"] and read_runs(store)[0].stages == []
    (folder / ENDED).write_text("{")
    assert read_runs(store) == [] and str(folder) in caplog.text
    (folder / BEGUN).unlink()
    assert read_runs(store) == []


def test_object_store_has_stages_with_the_end() -> None:
    store = ArtifactStore("memory://recorded")
    with recording("a/b", []) as recorder:
        begin_record(store)
        with noted("clean", "1" * 32, ""):
            pass
        assert [(one.state, list(one.stages)) for one in read_runs(store)] == [("unfinished", [])]
        recorder.end(FINISHED)
    (run,) = read_runs(store)
    assert run.state == "finished" and [one.stage for one in run.stages] == ["clean"]


def test_runs_of_one_second_keep_their_order(store: ArtifactStore) -> None:
    """`gc --keep 1` must keep the newest, not the one with the greater random part."""
    names = [f"run{number}" for number in range(12)]
    for name in names:
        with recording(name, []):
            begin_record(store)
    assert [run.begun.flow for run in read_runs(store)] == names
