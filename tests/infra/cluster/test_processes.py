"""Units of work in worker processes: what they are given, what happens when one dies, and that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.artifacts import ArtifactStore
from infra.builds import PartWriter
from infra.cluster import processes
from infra.cluster.executor import executor_for
from infra.cluster.processes import ProcessExecutor
from infra.cluster.session import RayExecutor
from infra.cluster.worker import ONE_THREAD
from infra.errors import StorageFullError, UserError
from infra.settings import REPOSITORY, Settings
from infra.stage import Output, StageParams, run, stage


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessExecutor]:
    """Two workers that do everything: units that kill their process must not run in this one."""
    monkeypatch.setattr(processes, "SECONDS_ALONE", 0.0)
    made = ProcessExecutor(2)
    made._is_started = True
    yield made
    made.close()


class Params(StageParams):
    """Number of units, and a folder in which they leave marks."""

    units: int = 3
    folder: str = ""


def observe(writer: PartWriter, number: int, params: Params, parent: int) -> None:
    time.sleep(0.2)
    writer.count("here", int(os.getpid() == parent))
    writer.count("elsewhere", int(os.getpid() != parent))
    writer.count("one_thread", int(all(os.environ.get(name) == value for name, value in ONE_THREAD.items())))
    writer.count("sum", number)


@stage(name="observed", version=1, params=Params)
def observed(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(observe, range(params.units), params, os.getpid())


def test_units_run_in_workers_with_one_thread_each(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SECONDS_ALONE", 0.3)
    executor = ProcessExecutor(2)
    try:
        counters = run(observed, store, Params(units=40), {}, executor=executor).artifact.manifest.counters
        again = run(observed, store, Params(units=4), {}, executor=executor).artifact.manifest.counters
    finally:
        executor.close()
    assert counters["here"] >= 2, "two before the workers were started, and more while they imported"
    assert counters["elsewhere"] == counters["one_thread"] > 2
    assert (counters["here"] + counters["elsewhere"], counters["sum"]) == (40, sum(range(40)))
    assert again == {"here": 0, "elsewhere": 4, "one_thread": 4, "sum": 6}, "workers outlive a stage"


@pytest.mark.parametrize(("units", "workers"), [(3, 2), (1, 2), (3, 1)])
def test_short_work_starts_no_worker(units: int, workers: int, store: ArtifactStore) -> None:
    executor = ProcessExecutor(workers)
    counters = run(observed, store, Params(units=units), {}, executor=executor).artifact.manifest.counters
    assert (counters["here"], counters["elsewhere"]) == (units, 0)
    assert not workers_of(os.getpid())


def die_at_first(writer: PartWriter, number: int, params: Params) -> None:
    mark = Path(params.folder, str(number))
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    writer.count("sum", number)


@stage(name="dying", version=1, params=Params)
def dying(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(die_at_first, range(params.units), params)


def test_unit_of_a_killed_worker_is_done_again(
    store: ArtifactStore, tmp_path: Path, executor: ProcessExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    found = run(dying, store, Params(units=4, folder=str(tmp_path)), {}, executor=executor).artifact
    assert found.manifest.counters == {"sum": 6}
    assert "A worker process was killed (SIGKILL); part 1 is done again" in caplog.messages


def always_die(writer: PartWriter, number: int, params: Params) -> None:
    if number == 1:
        with Path(params.folder, "deaths").open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    writer.count("sum", number)


@stage(name="doomed", version=1, params=Params)
def doomed(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(always_die, range(params.units), params)


def test_repeated_deaths_end_with_a_remedy(store: ArtifactStore, tmp_path: Path, executor: ProcessExecutor) -> None:
    expected = r"killed \(SIGKILL\) 4 times in a row .*\(part 1\)\. Memory probably ran out: set YIWEN_WORKERS"
    with pytest.raises(UserError, match=expected):
        run(doomed, store, Params(units=4, folder=str(tmp_path)), {}, executor=executor)
    assert (tmp_path / "deaths").read_text() == "xxxx"


class OddError(Exception):
    """An error that pickles, but cannot be made again from its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def fail(writer: PartWriter, number: int, params: Params) -> None:
    if number == 1:
        raise {"full": StorageFullError("no room"), "odd": OddError("this", "that")}[params.folder]
    time.sleep(240 if number == 0 else 0)


@stage(name="failing", version=1, params=Params)
def failing(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(fail, range(params.units), params)


@pytest.mark.parametrize(
    ("kind", "error", "message"), [("full", StorageFullError, "^no room"), ("odd", RuntimeError, "this and that")]
)
def test_error_of_a_unit_is_raised_and_the_others_are_stopped(
    kind: str, error: type[Exception], message: str, store: ArtifactStore, executor: ProcessExecutor
) -> None:
    began = time.monotonic()
    with pytest.raises(error, match=message) as caught:
        run(failing, store, Params(folder=kind), {}, executor=executor)
    assert "In a worker process:" in "\n".join([*getattr(caught.value, "__notes__", ()), str(caught.value)])
    assert time.monotonic() - began < 200, "waited for a unit that nobody needs any more"
    counters = run(observed, store, Params(units=4), {}, executor=executor).artifact.manifest.counters
    assert counters["elsewhere"] == 4, "the executor works on"


def test_results_do_not_depend_on_the_executor(store: ArtifactStore, tmp_path: Path, executor: ProcessExecutor) -> None:
    elsewhere = ArtifactStore(tmp_path / "other")
    alone = run(numbered, store, Params(units=9), {}).artifact
    shared = run(numbered, elsewhere, Params(units=9), {}, executor=executor).artifact
    assert alone.manifest.tables == shared.manifest.tables


def number_rows(writer: PartWriter, number: int) -> None:
    time.sleep(0.05 * (number % 3))  # they do not finish in order
    writer.write("rejects", [dict.fromkeys(("doc_id", "source", "reason", "detail", "excerpt"), f"{number}")])


@stage(name="numbered", version=1, params=Params, tables=("rejects",))
def numbered(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(number_rows, range(params.units))


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = f"""
        from tests.infra.cluster.test_processes import *
        processes.SECONDS_ALONE = 0.0
        executor = ProcessExecutor(2)
        executor._is_started = True
        store = ArtifactStore({str(tmp_path / "store")!r})
        run(sleeping, store, Params(units=2, folder={str(tmp_path)!r}), {{}}, executor=executor)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=REPOSITORY)
    try:
        wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
        workers = workers_of(process.pid)
        assert len(workers) == 2
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


def sleep(writer: PartWriter, number: int, params: Params) -> None:
    Path(params.folder, f"begun-{number}").touch()
    time.sleep(300)


@stage(name="sleeping", version=1, params=Params)
def sleeping(inputs: Mapping[str, Any], params: Params, out: Output) -> None:
    out.map(sleep, range(params.units), params)


def workers_of(parent: int) -> list[psutil.Process]:
    """Worker processes that a process has started."""
    return [child for child in psutil.Process(parent).children() if "infra.cluster.worker" in child.cmdline()]


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("executor_name", "kind"), [("processes", ProcessExecutor), ("ray", RayExecutor)], ids=["processes", "ray"]
)
def test_setting_chooses_the_executor(executor_name: Any, kind: type, tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), workers=2, ray_address=None, executor=executor_name)
    with executor_for(settings) as chosen:
        assert isinstance(chosen, kind)
