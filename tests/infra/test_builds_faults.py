"""Builds that are killed, run out of space, or race each other: the artifact is complete or absent."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.cli.stored.garbage import find_garbage
from infra.artifacts import ArtifactStore
from infra.builds import BuildPlace, PartWriter, Unit, discard_partial, is_being_built, open_scratch, run_unit
from infra.errors import StorageFullError
from infra.settings import REPOSITORY
from tests.support.processes.building import (
    PARTS,
    Job,
    PoolExecutor,
    SampleParams,
    build,
    build_under_limits,
    content_of,
    leftovers,
    processes,
    read_journal,
    run_sample,
    sample,
)

FINGERPRINT = sample.fingerprint(SampleParams(), {})
PATIENCE = 60
"""Seconds after which a process of a test counts as hung."""


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[dict[str, bytes]]:
    """The content of the sample's artifact, file by file."""
    with _memory_folder() as folder:
        yield content_of(run_sample(folder, SampleParams()).artifact)


@pytest.fixture
def folder() -> Iterator[Path]:
    with _memory_folder() as folder:
        yield folder


@contextlib.contextmanager
def _memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: a busy disk would make these builds ten times slower."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="yiwen-测试-", dir=parent) as name:
        yield Path(name)


class Builder:
    """Starts builds of the sample below one root, each with a journal of its own."""

    def __init__(self, root: str, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.started: list[Any] = []

    @property
    def store(self) -> ArtifactStore:
        return ArtifactStore(self.root)

    def params(self, name: str, **options: Any) -> SampleParams:
        return SampleParams(journal=str(self.folder / f"{name}.journal"), **options)

    def start(self, name: str, *signals: Any, kill_at_event: int | None = None, **options: Any) -> Any:
        job = Job(self.root, self.params(name, **options), str(self.folder / f"{name}.json"), kill_at_event)
        process = processes().Process(target=build, args=(job, *signals))
        process.start()
        self.started.append(process)
        return process

    def result(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def parts_begun(self, name: str) -> list[int]:
        return read_journal(self.params(name))


@pytest.fixture
def builder(folder: Path) -> Iterator[Builder]:
    yield from _builder(str(folder / "store"), folder)


@pytest.fixture
def bucket_builder(folder: Path) -> Iterator[Builder]:
    """Builds on a root that can neither rename nor lock."""
    yield from _builder(f"bucket://{folder}/store", folder)


def _builder(root: str, folder: Path) -> Iterator[Builder]:
    builder = Builder(root, folder)
    yield builder
    for process in builder.started:
        process.kill()
        process.join()


def _finish(process: Any) -> int:
    process.join(PATIENCE)
    return process.exitcode


def _check_after_kill(builder: Builder, undisturbed: dict[str, bytes]) -> None:
    """Before the resume there is no artifact or a complete one; after it, everything is as in an undisturbed build."""
    early = builder.store.get("sample", FINGERPRINT)
    if early is not None:
        assert content_of(early) == undisturbed
    assert len(builder.store.list()) == (early is not None)

    assert _finish(builder.start("resumed")) == 0

    artifact = builder.store.get("sample", FINGERPRINT)
    assert artifact is not None
    artifact.verify()
    assert content_of(artifact) == undisturbed
    assert leftovers(builder.store) == []
    begun, resumed = builder.parts_begun("killed"), builder.parts_begun("resumed")
    assert begun == list(range(len(begun)))
    # All parts begun but the last were finished; the last one may or may not be.
    assert resumed in (list(range(max(0, len(begun) - 1), PARTS)), list(range(len(begun), PARTS)))
    if early is None:
        assert artifact.manifest.resumed_parts == PARTS - len(resumed)


@pytest.fixture(scope="module")
def operations() -> dict[str, int]:
    """Number of file operations of an undisturbed build by kind of root, and the milliseconds that it takes."""
    counts = {"milliseconds": 0}
    for kind, prefix in (("builder", ""), ("bucket_builder", "bucket://")):
        with _memory_folder() as folder:
            builder = Builder(f"{prefix}{folder}/store", folder)
            assert _finish(builder.start("whole")) == 0
            counts[kind] = len(builder.result("whole")["operations"])
            counts["milliseconds"] = builder.result("whole")["milliseconds"]
    return counts


KILLS = 20
KILLED_OPERATIONS = 12


@pytest.mark.parametrize("kind", ["builder", "bucket_builder"])
@pytest.mark.parametrize("kill", range(KILLED_OPERATIONS))
def test_build_killed_at_any_file_operation_resumes(
    kind: str, kill: int, operations: dict[str, int], undisturbed: dict[str, bytes], request: pytest.FixtureRequest
) -> None:
    builder: Builder = request.getfixturevalue(kind)
    first, last = (operations[kind] * (kill + more) // KILLED_OPERATIONS for more in (0, 1))
    moment = random.Random(f"{kind} {kill}").randint(first + 1, last)

    assert _finish(builder.start("killed", kill_at_event=moment)) == -signal.SIGKILL

    _check_after_kill(builder, undisturbed)


@pytest.mark.parametrize("kind", ["builder", "bucket_builder"])
def test_build_killed_at_each_operation_of_its_commit_resumes(
    kind: str, undisturbed: dict[str, bytes], request: pytest.FixtureRequest
) -> None:
    """From the manifest on: of each operation it matters whether it came before the kill or not."""
    builder: Builder = request.getfixturevalue(kind)
    store, kept = builder.folder / "store", builder.folder / "kept"

    def named(operations: list[str], end: str) -> int:
        return max(number for number, operation in enumerate(operations, 1) if operation.endswith(end))

    assert _finish(builder.start("whole")) == 0
    begun = named(builder.result("whole")["operations"], f"{FINGERPRINT}.partial/records/{PARTS:05d}.json")
    shutil.rmtree(store)
    assert _finish(builder.start("kept", kill_at_event=begun + 1)) == -signal.SIGKILL
    store.rename(kept)  # all units are finished, nothing else is
    shutil.copytree(kept, store)
    assert _finish(builder.start("again")) == 0
    operations = builder.result("again")["operations"]
    units = named(operations, "/units.json")
    # Of the units' records, which are deleted last, the first and the last tell as much as all.
    middle = {f"os.remove {unit:05d}.json" for unit in range(1, PARTS)}
    moments = [at for at, operation in enumerate(operations, 1) if at > units and operation not in middle]
    assert len(moments) > 20 and any(operations[at - 1].endswith("/manifest.json") for at in moments)
    for moment in moments:
        shutil.rmtree(store)
        shutil.copytree(kept, store)
        assert _finish(builder.start("killed", kill_at_event=moment)) == -signal.SIGKILL
        early = builder.store.get("sample", FINGERPRINT)
        assert early is None or content_of(early) == undisturbed, operations[moment - 1]
        assert len(builder.store.list()) == (early is not None)
        resumed = run_sample(builder.root, SampleParams())
        assert content_of(resumed.artifact) == undisturbed, operations[moment - 1]
        assert leftovers(builder.store) == []


@pytest.mark.parametrize("kill", range(KILLS))
def test_build_killed_at_any_time_resumes(
    kill: int, builder: Builder, operations: dict[str, int], undisturbed: dict[str, bytes]
) -> None:
    started = processes().Event()
    process = builder.start("killed", started)
    assert started.wait(PATIENCE)
    share = (kill + random.Random(kill).random()) / KILLS
    time.sleep(share * operations["milliseconds"] / 1000)  # the kill may come at any moment
    process.kill()
    assert _finish(process) in (-signal.SIGKILL, 0)

    _check_after_kill(builder, undisturbed)


def test_build_killed_repeatedly_still_finishes(
    builder: Builder, operations: dict[str, int], undisturbed: dict[str, bytes]
) -> None:
    generator = random.Random(3)
    names = []
    while builder.store.get("sample", FINGERPRINT) is None:
        names.append(f"run {len(names)}")
        moment = generator.randint(operations["builder"] // 8, operations["builder"] // 3)
        _finish(builder.start(names[-1], kill_at_event=moment))
        assert len(names) < 40
    assert len(names) > 3
    begun = [part for name in names for part in builder.parts_begun(name)]
    assert set(begun) == set(range(PARTS))
    assert len(begun) <= PARTS + len(names) - 1  # a kill costs only the part in progress
    _finish(builder.start("last"))
    artifact = builder.store.get("sample", FINGERPRINT)
    assert artifact is not None
    assert content_of(artifact) == undisturbed
    assert leftovers(builder.store) == []


def test_finished_part_damaged_before_the_resume_is_recomputed(builder: Builder, undisturbed: dict[str, bytes]) -> None:
    process = builder.start("killed", stop_at=9)
    _wait_for_file(builder.folder / "killed.journal.stopped")
    process.kill()
    _finish(process)
    part = next((builder.folder / "store").rglob("documents/part-00004-000.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)

    assert _finish(builder.start("resumed")) == 0

    assert builder.parts_begun("resumed") == [4, 9, 10, 11]
    assert content_of(builder.store.list()[0]) == undisturbed


def test_of_two_builders_one_works_and_the_other_waits(builder: Builder, undisturbed: dict[str, bytes]) -> None:
    barrier = processes().Barrier(2)
    both = [builder.start(name, barrier) for name in ("first", "second")]
    assert [_finish(process) for process in both] == [0, 0]

    assert sorted(builder.result(name)["reused"] for name in ("first", "second")) == [False, True]
    begun = [builder.parts_begun(name) for name in ("first", "second")]
    assert sorted(begun) == [[], list(range(PARTS))]
    assert content_of(builder.store.list()[0]) == undisturbed
    assert leftovers(builder.store) == []


def test_four_builders_on_a_root_without_locks_agree(bucket_builder: Builder, undisturbed: dict[str, bytes]) -> None:
    barrier = processes().Barrier(4)
    names = ["first", "second", "third", "fourth"]
    all_ = [bucket_builder.start(name, barrier) for name in names]
    assert [_finish(process) for process in all_] == [0, 0, 0, 0]

    [artifact] = bucket_builder.store.list()
    artifact.verify()
    assert content_of(artifact) == undisturbed
    assert _finish(bucket_builder.start("later")) == 0
    assert bucket_builder.result("later")["reused"]
    assert leftovers(bucket_builder.store) == []


@pytest.mark.parametrize("fork", [False, True], ids=["alone", "with a surviving forked worker"])
def test_lock_of_a_killed_builder_is_released(builder: Builder, undisturbed: dict[str, bytes], fork: bool) -> None:
    holder = builder.start("holder", stop_at=5, fork=fork)
    stopped = builder.folder / "holder.journal.stopped"
    _wait_for_file(stopped)
    try:
        waiting = processes().Event()
        other = builder.start("other", None, waiting)
        assert waiting.wait(PATIENCE)
        assert other.is_alive()
        assert builder.parts_begun("other") == []

        holder.kill()

        assert _finish(other) == 0
    finally:
        if fork:
            os.kill(int(stopped.read_text()), signal.SIGKILL)
    assert builder.parts_begun("other") == list(range(5, PARTS))
    assert content_of(builder.store.list()[0]) == undisturbed
    assert leftovers(builder.store) == []


def test_neither_a_finished_nor_a_failed_unit_leaves_files_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a root that cannot rename, parts are written to the machine's own folder of temporary files first."""
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    store = ArtifactStore(f"bucket://{tmp_path}/store")
    place = BuildPlace(store.root, "sample", "0" * 32)
    row = {"doc_id": "1", "source": "emr", "title": "", "text": "头痛", "meta": "{}"}

    def work(part: PartWriter, fails: bool) -> None:
        part.write("documents", [row])
        assert list(elsewhere.iterdir())
        if fails:
            raise KeyError("of the stage")

    run_unit(place, work, Unit(0, (False,)))
    assert not list(elsewhere.iterdir())
    with pytest.raises(KeyError):
        run_unit(place, work, Unit(1, (True,)))
    assert not list(elsewhere.iterdir())


def test_everything_is_on_the_disk_before_the_artifact_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the rename must not leave an artifact with empty files, nor take it back."""
    synced: set[int] = set()
    early: list[str] = []
    fsync, rename = os.fsync, os.rename

    def syncing(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def renaming(source: str, target: str) -> None:
        files = [file for file in Path(source).rglob("*") if file.is_file()]
        early.extend(file.name for file in files if file.stat().st_ino not in synced)
        rename(source, target)
        synced.clear()

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "rename", renaming)
    artifact = run_sample(tmp_path / "store", SampleParams(parts=2)).artifact
    assert (artifact.path / "manifest.json").exists() and early == []
    assert artifact.path.parent.stat().st_ino in synced, "the new name itself"


def _wait_for_file(path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.005)


@pytest.mark.parametrize("prefix", ["", "bucket://"], ids=["local", "bucket"])
def test_results_do_not_depend_on_workers_or_their_order(
    prefix: str, folder: Path, undisturbed: dict[str, bytes]
) -> None:
    result = run_sample(f"{prefix}{folder}/store", SampleParams(), PoolExecutor())
    assert content_of(result.artifact) == undisturbed
    assert leftovers(ArtifactStore(f"{prefix}{folder}/store")) == []


def test_limit_on_file_size_is_reported_and_the_build_resumes(builder: Builder, undisturbed: dict[str, bytes]) -> None:
    """Every write fails once at every kind of place: first byte, middle and footer of parts, records, manifest."""
    sizes = sorted(
        len(data) for name, data in undisturbed.items() if name.startswith("/documents/") or name == "/weights.bin"
    )
    near = {size - less for size in sizes for less in (1, 4, 8, 9, 100)}
    manifest = len((run_sample(builder.folder / "other", SampleParams()).artifact.path / "manifest.json").read_bytes())
    manifest -= 16  # seconds and memory may have a digit more or less in each run
    limits = sorted({0, 3, 4, 100, 500, 1000, *near, manifest - 1})
    params = builder.params("limited")
    process = processes().Process(
        target=build_under_limits, args=(builder.root, params, limits, str(builder.folder / "errors"))
    )
    process.start()
    assert _finish(process) == 0

    errors = json.loads((builder.folder / "errors").read_text())
    assert len(errors) == len(limits) > 60
    for limit, error in zip(limits, errors, strict=True):
        if limit < max(*sizes, manifest):
            assert "No space left while writing" in error
            assert f"{builder.root}/sample/" in error
            assert "ulimit -f" in error and "run again: finished parts are kept" in error
    assert _finish(builder.start("resumed")) == 0
    artifact = builder.store.get("sample", FINGERPRINT)
    assert artifact is not None
    assert content_of(artifact) == undisturbed
    assert leftovers(builder.store) == []
    begun = builder.parts_begun("limited")
    assert begun == sorted(begun)  # parts finished under a lower limit were not begun again
    assert begun[-1] == PARTS - 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_scratch_error_on_a_full_disk_names_the_remedy() -> None:
    with (
        pytest.raises(StorageFullError, match=r"No space left while writing /dev/full .*Free some space"),
        open_scratch("/dev/full") as file,
    ):
        pl.DataFrame({"number": range(100_000)}).write_parquet(file)


def test_scratch_file_is_written_atomically(tmp_path: Path) -> None:
    with pytest.raises(KeyError), open_scratch(str(tmp_path / "half")) as file:
        file.write(b"half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with open_scratch(str(tmp_path / "whole")) as file:
        file.write(b"whole")
    assert (tmp_path / "whole").read_bytes() == b"whole"


PRIVATE_MOUNTS = next(
    (
        command
        for command in (["unshare", "-Urm"], ["unshare", "-m"])
        if shutil.which("unshare")
        and subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0
    ),
    None,
)


@pytest.mark.skipif(PRIVATE_MOUNTS is None, reason="neither root nor user namespaces: no small disk can be mounted")
def test_build_on_a_full_disk_resumes_once_space_is_freed(folder: Path, undisturbed: dict[str, bytes]) -> None:
    assert PRIVATE_MOUNTS is not None
    disk = folder / "小盘"
    disk.mkdir()
    half = sum(len(data) for data in undisturbed.values()) // 2
    script = [sys.executable, "-m", "tests.support.processes.building", str(disk), str(half)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([*PRIVATE_MOUNTS, *script], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "No space left on device" in found["error"]
    assert f"{disk}/sample/" in found["error"]
    assert "Free some space" in found["error"] and "YIWEN_HOME" in found["error"]
    stopped_at = found["begun"][-1]
    assert 0 < stopped_at < PARTS - 1
    assert found["resumed"] == list(range(stopped_at, PARTS))
    assert found["resumed_parts"] == stopped_at
    assert {name: bytes.fromhex(data) for name, data in found["content"].items()} == undisturbed
    assert "Exception ignored" not in done.stderr


def test_a_try_that_vanishes_while_it_is_looked_for_is_no_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run finished, or another `gc` was faster, between the listing and the look."""
    store = ArtifactStore(tmp_path)
    for name in ("gone", "there"):
        (tmp_path / "clean" / f".{name}.partial").mkdir(parents=True)

    def look(folder: Path) -> bool:
        if "gone" in folder.name and folder.exists():
            folder.rmdir()
        return is_being_built(folder)

    monkeypatch.setattr("flows.cli.stored.garbage.is_being_built", look)
    found = find_garbage(store, [], keep=1, days=0.0)
    assert [folder.name for folder in found.partial] == [".there.partial"]
    assert not discard_partial(tmp_path / "clean" / ".gone.partial"), "nothing was deleted by this call"
    assert discard_partial(found.partial[0]) and not found.partial[0].exists()
