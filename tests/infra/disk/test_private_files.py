"""What a run writes is readable by its user alone, whoever writes it: the flow's process or a worker."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from infra import builds
from infra.artifacts import ArtifactStore
from infra.cluster import processes
from infra.disk import private_files as module
from infra.disk.private_files import private_files
from infra.stage import SerialExecutor, run
from tests.support.processes.building import SampleParams, sample

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def readable_by_others(folder: Path) -> list[str]:
    """The files and folders below a folder that others could open if they came that far."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.stat().st_mode & OTHERS]


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("workers", [0, 2])
def test_no_file_of_an_artifact_can_be_read_by_others(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SECONDS_ALONE", 0)
    executor = processes.ProcessExecutor(workers) if workers else SerialExecutor()
    artifact = run(sample, ArtifactStore(tmp_path / "store"), SampleParams(), {}, executor=executor).artifact
    if isinstance(executor, processes.ProcessExecutor):
        executor.close()
        assert not executor.in_process
    assert isinstance(artifact.path, Path) and any(artifact.path.rglob("*.parquet"))
    assert readable_by_others(tmp_path / "store") == []


class Elsewhere:
    """An executor whose workers did not inherit this process's umask, like those of a cluster."""

    workers, in_process = 1, True

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        for unit in units:
            os.umask(0o022)
            yield builds.run_unit(place, function, unit)


def test_a_worker_of_a_cluster_writes_private_files_too(tmp_path: Path) -> None:
    artifact = run(sample, ArtifactStore(tmp_path / "store"), SampleParams(), {}, executor=Elsewhere()).artifact
    assert isinstance(artifact.path, Path)
    documents = artifact.path / "documents"
    assert any(documents.iterdir()) and readable_by_others(documents) == []


def test_the_umask_is_given_back_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), private_files():
        (tmp_path / "inside").touch()
        1 / 0  # noqa: B018
    (tmp_path / "outside").touch()
    assert not (tmp_path / "inside").stat().st_mode & OTHERS
    assert (tmp_path / "outside").stat().st_mode & OTHERS == stat.S_IRGRP | stat.S_IROTH


def test_a_stricter_umask_stays(tmp_path: Path) -> None:
    os.umask(0o277)
    with private_files():
        (tmp_path / "file").touch()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o400


def test_a_block_that_ends_leaves_those_of_other_threads_private(tmp_path: Path) -> None:
    """The first block ends while the second goes on; behind both, files are as public as before."""
    inside, over = threading.Event(), threading.Event()

    def second() -> None:
        with private_files():
            inside.set()
            over.wait(10)
            (tmp_path / "second").touch()

    thread = threading.Thread(target=second)
    with private_files():
        thread.start()
        assert inside.wait(10)
    (tmp_path / "between").touch()
    over.set()
    thread.join()
    (tmp_path / "behind").touch()
    modes = {path.name: path.stat().st_mode & OTHERS for path in tmp_path.iterdir()}
    assert modes == {"second": 0, "between": 0, "behind": stat.S_IRGRP | stat.S_IROTH}


def test_many_threads_at_once_leave_the_umask_as_it_was(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for turn in range(40):
            with private_files():
                (tmp_path / f"{number}-{turn}").touch()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert readable_by_others(tmp_path) == []
    assert os.umask(0o022) == 0o022


def test_a_forked_process_writes_private_files_though_a_thread_held_the_lock(tmp_path: Path) -> None:
    """A process forked between two instructions of another thread gets a lock that nobody will give back."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with module._blocks.lock:
            held.set()
            over.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    child = os.fork()
    if child == 0:
        with private_files():
            (tmp_path / "child").touch()
        os._exit(0)
    until = time.monotonic() + 10
    while (ended := os.waitpid(child, os.WNOHANG)[0]) == 0 and time.monotonic() < until:
        time.sleep(0.01)
    over.set()
    thread.join()
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended and readable_by_others(tmp_path) == []
