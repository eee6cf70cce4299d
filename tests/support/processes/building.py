"""A stage to kill, starve and race, and the processes that do it.

The tests start `build` in processes of a fork server, so that a kill costs milliseconds and not the imports.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy.random  # noqa: F401
import pandas  # noqa: F401 - pyarrow imports it with its first table: hundreds of operations on files
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from pydantic import Field

from infra import builds
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import Unit
from infra.errors import StorageFullError
from infra.settings import REPOSITORY
from infra.stage import Executor, Output, SerialExecutor, StageParams, StageResult, run, stage

PARTS = 12
COSTS = {"created_at", "wall_seconds", "cpu_seconds", "peak_memory_bytes", "resumed_parts", "code_version"}
"""Fields of a manifest that say what the work cost; all others are a function of the work."""


class SampleParams(StageParams):
    """`journal` gets an empty file for every part begun; it and what follows are no part of the fingerprint."""

    seed: int = 7
    parts: int = PARTS
    journal: str | None = Field(default=None, exclude=True)
    stop_at: int | None = Field(default=None, exclude=True)
    fork: bool = Field(default=False, exclude=True)


@stage(name="sample", version=1, params=SampleParams, tables=("documents", "rejects", "metrics"))
def sample(inputs: Mapping[str, Any], params: SampleParams, out: Output) -> None:
    """Documents and rejects part by part, then one part of figures and two files."""
    out.map(write_part, range(params.parts), params)
    with out.part() as part:
        part.write("metrics", [{"step": 1, "split": "train", "name": "loss", "value": 0.5}])
    with tempfile.TemporaryDirectory() as name:
        Path(name, "目录").mkdir()
        Path(name, "目录", "说明.txt").write_text("症状：头痛\n", encoding="utf-8")
        Path(name, "weights.bin").write_bytes(random.Random(params.seed).randbytes(5000))
        out.add_folder(Path(name))
    out.count("documents_in", params.parts)


def write_part(part: builds.PartWriter, index: int, params: SampleParams) -> None:
    """Part i holds 60 more documents than the one before, so that limits on size bite at different parts."""
    if params.journal is not None:
        os.makedirs(params.journal, exist_ok=True)
        Path(params.journal, f"{len(os.listdir(params.journal)):05d} {index}").touch()
    if index == params.stop_at:
        _stop(params)
    generator = random.Random(f"{params.seed} {index}")
    for block in range(3 * (index + 1)):
        letters = "".join(generator.choices("头痛发热咳嗽乏力恶心", k=50))
        texts = [letters[row : row + 30] for row in range(20)]
        ids = [f"{index}-{block}-{row}" for row in range(20)]
        rows = zip(ids, texts, strict=True)
        part.write("documents", [_document(doc_id, text) for doc_id, text in rows])
        part.reject(doc_id=f"{index}-{block}-20", source="emr", reason="short", detail="3 < 4", text=texts[0][:3])
        part.count("lines", 21)


def _document(doc_id: str, text: str) -> dict[str, str]:
    return {"doc_id": doc_id, "source": "emr", "title": "", "text": text, "meta": "{}"}


def _stop(params: SampleParams) -> None:
    """Wait for the kill; with `fork`, in company of a forked child that outlives it."""
    child = os.fork() if params.fork else None
    if child != 0:
        Path(f"{params.journal}.child").write_text(str(child), encoding="utf-8")
        os.replace(f"{params.journal}.child", f"{params.journal}.stopped")
    while True:
        signal.pause()


class Bucket(AbstractFileSystem):
    """What an object store offers, on a local disk: whole puts, no locks, no renaming, no empty folders."""

    protocol = "bucket"
    _disk = LocalFileSystem()

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        entries = [e for e in self._disk.ls(self._strip_protocol(path), detail=True) if ".upload-" not in e["name"]]
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return self._disk.info(self._strip_protocol(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        return self._disk.cat_file(self._strip_protocol(path), start, end)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        assert mode == "rb", "object stores take whole files"
        return open(path, mode)

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
        target, data = Path(self._strip_protocol(rpath)), Path(lpath).read_bytes()
        while True:
            with contextlib.suppress(FileNotFoundError):  # another builder has deleted the folder: a bucket has none
                target.parent.mkdir(parents=True, exist_ok=True)
                uploaded = Path(tempfile.mkdtemp(prefix=".upload-", dir=target.parent), "file")
                uploaded.write_bytes(data)
                uploaded.replace(target)
                break
        with contextlib.suppress(FileNotFoundError):
            uploaded.parent.rmdir()

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders come and go with their files."""

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        self._disk.rm(self._strip_protocol(path), recursive=recursive)


fsspec.register_implementation("bucket", Bucket, clobber=True)


class PoolExecutor:
    """Two processes; hands the records over in an order of its own."""

    in_process = False

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[Unit]
    ) -> Iterator[builds.WorkRecord]:
        with ProcessPoolExecutor(2, mp_context=processes()) as pool:
            futures = [pool.submit(builds.run_unit, place, function, unit) for unit in units[::-1]]
            random.Random(0).shuffle(futures)
            for future in futures:
                yield future.result()


@dataclass(frozen=True)
class Job:
    """One build in a process of its own; the file `result` gets how it went."""

    root: str
    params: SampleParams
    result: str
    kill_at_event: int | None = None


def processes() -> Any:
    """A fork server that has imported this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.processes.building"])
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    return context


def build(job: Job, started: Any = None, waiting: Any = None) -> None:
    """Build the sample; `started` is a barrier or an event, `waiting` is set when another build has the lock."""
    tempfile.tempdir = str(Path(job.result).parent)  # what a killed process leaves there goes with the test
    if waiting is not None:
        _tell_when_waiting(waiting)
    if started is not None:
        getattr(started, "wait" if hasattr(started, "parties") else "set")()
    operations = _watch_file_operations(job)
    begun = time.monotonic()
    result = run_sample(job.root, job.params)
    milliseconds = int((time.monotonic() - begun) * 1000)
    text = json.dumps({"reused": result.reused, "operations": operations, "milliseconds": milliseconds})
    Path(job.result).write_text(text, encoding="utf-8")


def run_sample(root: str | Path, params: SampleParams, executor: Executor | None = None) -> StageResult:
    return run(sample, ArtifactStore(root), params, {}, executor=executor or SerialExecutor())


FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "fcntl.flock"}


def _watch_file_operations(job: Job) -> list[str]:
    """List the operations on files that Python makes, each with its last path, and die just before the one asked for.

    The first has the number 1.
    """
    operations: list[str] = []

    def on_event(name: str, arguments: tuple[Any, ...]) -> None:
        if name in FILE_OPERATIONS:
            operations.append(" ".join([name, *[str(one) for one in arguments[:2] if isinstance(one, str)][-1:]]))
            if len(operations) == job.kill_at_event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)
    return operations


def _tell_when_waiting(waiting: Any) -> None:
    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waiting" in record.getMessage():
                waiting.set()

    logging.getLogger("infra").addHandler(Teller())
    logging.getLogger("infra").setLevel(logging.INFO)


def build_under_limits(root: str, params: SampleParams, limits: Sequence[int], result: str) -> None:
    """Build again and again while files may grow to this many bytes; writes the errors' texts as JSON."""
    errors = []
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            run_sample(root, params)
            errors.append("")
        except StorageFullError as error:
            errors.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    Path(result).write_text(json.dumps(errors), encoding="utf-8")


def build_on_full_disk(folder: Path, size: int) -> None:
    """On a disk of our own with room for `size` bytes, then with more; prints what happened as JSON."""
    os.system(f"mount -t tmpfs -o size={size} tmpfs '{folder}'")
    params = SampleParams(journal=f"{folder}.journal")
    error = ""
    try:
        run_sample(folder, params)
    except StorageFullError as full:
        error = str(full)
    begun = read_journal(params)
    os.system(f"mount -o remount,size=64m '{folder}'")
    result = run_sample(folder, params)
    result.artifact.verify()
    print(
        json.dumps(
            {
                "error": error,
                "begun": begun,
                "resumed": read_journal(params)[len(begun) :],
                "resumed_parts": result.artifact.manifest.resumed_parts,
                "content": {name: data.hex() for name, data in content_of(result.artifact).items()},
            }
        )
    )


def read_journal(params: SampleParams) -> list[int]:
    """The parts that were begun, in order."""
    folder = Path(params.journal or "")
    return [int(entry.name.split()[1]) for entry in sorted(folder.iterdir())] if folder.is_dir() else []


def content_of(artifact: Artifact) -> dict[str, bytes]:
    """Every file of an artifact; of its manifest what does not tell costs."""
    store = ArtifactStore(artifact.store_root)
    folder = f"{store.base}/{artifact.location}"
    found = {path.removeprefix(folder): store.filesystem.cat_file(path) for path in store.filesystem.find(folder)}
    manifest = json.loads(found["/manifest.json"])
    work = {name: value for name, value in manifest.items() if name not in COSTS}
    return found | {"/manifest.json": json.dumps(work, sort_keys=True).encode()}


def leftovers(store: ArtifactStore) -> list[str]:
    """What lies in the store and belongs to no finished artifact."""
    artifacts = tuple(f"{store.base}/{artifact.location}/" for artifact in store.list())
    stages = {f"{store.base}/{artifact.stage}" for artifact in store.list()}
    paths = store.filesystem.find(store.base, withdirs=True)
    kept = {store.base, *stages, *(artifact.rstrip("/") for artifact in artifacts)}
    return [path for path in paths if path not in kept and not path.startswith(artifacts)]


if __name__ == "__main__":
    build_on_full_disk(Path(sys.argv[1]), int(sys.argv[2]))
