"""Units of work on a private Ray: in processes of their own, with one thread each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.builds import PartWriter
from infra.cluster import session as ray_session
from infra.cluster.session import ONE_THREAD, RayExecutor, is_ray_there, start_ray, stop_ray
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import Output, StageParams, run, stage


def tell(writer: PartWriter, number: int) -> None:
    writer.count("in_other_processes", int(os.getpid() != number))
    writer.count("one_thread", int(all(os.environ.get(name) == value for name, value in ONE_THREAD.items())))
    writer.count("our_code", int(os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(REPOSITORY)))


@stage(name="told", version=1, params=StageParams)
def told(inputs: Mapping[str, Any], params: StageParams, out: Output) -> None:
    out.map(tell, [os.getpid()] * 3)


@pytest.mark.ray
def test_workers_get_the_code_and_one_thread_and_our_environment_is_restored(store: ArtifactStore) -> None:
    before = dict(os.environ)
    try:
        start_ray(2, None)
        found = run(told, store, StageParams(), {}, executor=RayExecutor(workers=2)).artifact
        assert {name: os.environ.get(name) for name in (*ONE_THREAD, "PYTHONPATH")} == {
            name: before.get(name) for name in (*ONE_THREAD, "PYTHONPATH")
        }
    finally:
        stop_ray()
    assert found.manifest.counters == {"in_other_processes": 3, "one_thread": 3, "our_code": 3}


@pytest.mark.ray
def test_sigterm_handler_survives_the_start_of_ray() -> None:
    told: list[int] = []

    def note(number: int, frame: object) -> None:
        told.append(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        start_ray(2, None)
        assert signal.getsignal(signal.SIGTERM) is note
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == [signal.SIGTERM]
    finally:
        stop_ray()
        signal.signal(signal.SIGTERM, before)


class SlowParams(StageParams):
    """How much there is to do."""

    units: int


def work(writer: PartWriter, number: int, pid: int) -> None:
    time.sleep(0.5)
    writer.count("here", int(os.getpid() == pid))
    writer.count("elsewhere", int(os.getpid() != pid))
    writer.count("sum", number)


@stage(name="slow", version=1, params=SlowParams)
def slow(inputs: Mapping[str, Any], params: SlowParams, out: Output) -> None:
    out.map(work, range(params.units), os.getpid())


def test_short_work_starts_no_ray(store: ArtifactStore) -> None:
    found = run(slow, store, SlowParams(units=3), {}, executor=RayExecutor(workers=2)).artifact
    assert found.manifest.counters == {"here": 3, "elsewhere": 0, "sum": 3}
    assert not is_ray_there()


@pytest.mark.ray
def test_units_continue_while_ray_starts_and_each_is_done_once(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_slowly(workers: int, address: str | None) -> None:
        time.sleep(2.2)
        start_ray(workers, address)

    monkeypatch.setattr(ray_session, "SECONDS_ALONE", 1.0)
    monkeypatch.setattr(ray_session, "start_ray", start_slowly)
    try:
        found = run(slow, store, SlowParams(units=60), {}, executor=RayExecutor(workers=2)).artifact
    finally:
        stop_ray()
    counters = found.manifest.counters
    assert counters["here"] >= 4, "two before Ray was started, and more while it was"
    assert counters["elsewhere"] >= 2
    assert (counters["here"] + counters["elsewhere"], counters["sum"]) == (60, sum(range(60)))


def test_units_are_done_here_if_the_machine_is_too_busy_for_ray(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def time_out(**given: Any) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray_session, "SECONDS_ALONE", 0.0)
    monkeypatch.setattr("ray.init", time_out)
    found = run(slow, store, SlowParams(units=6), {}, executor=RayExecutor(workers=2)).artifact
    assert found.manifest.counters == {"here": 6, "elsewhere": 0, "sum": sum(range(6))}
    assert "may be busy or short of memory (The current node timed out" in caplog.text
    with pytest.raises(UserError, match=r"cluster\.workers=0"):  # a training does not go on without its workers
        start_ray(2, None)


def test_failed_start_of_ray_ends_the_run(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(workers: int, address: str | None) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(ray_session, "SECONDS_ALONE", 0.0)
    monkeypatch.setattr(ray_session, "start_ray", fail)
    with pytest.raises(RuntimeError, match="no room"):
        run(slow, store, SlowParams(units=6), {}, executor=RayExecutor(workers=2))
