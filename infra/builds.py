"""Building one artifact so that it is there whole or not at all.

A build lives in `<root>/<stage>/.<fingerprint>.partial/`:

    content/    what will become the artifact: finished parts and files, the manifest last
    records/    one JSON a finished part: its files, hashes, counters and cost; written after the part
    staging/    files being written; nothing here counts
    scratch/    for stages that resume by themselves (training checkpoints)
    lock        held by the process that builds (local roots)

A killed build leaves its records, and the next one takes the parts they vouch for. On a local root
`content/` becomes the artifact by one rename. Object stores cannot rename folders, so there content is
written at its final place at once and the manifest, put last, is the commit: readers ignore a folder
without one. Two builders of one address wait for each other on a local root (the kernel drops the lock
when its holder dies); elsewhere they write the same bytes to the same places.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import posixpath
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel, ConfigDict, ValidationError

from infra import schemas
from infra.artifacts import (
    MANIFEST,
    Artifact,
    ArtifactStore,
    FileRecord,
    InputRecord,
    Manifest,
    PartRecord,
    TableRecord,
)
from infra.errors import StorageFullError
from infra.usage import Usage, measure_usage

logger = logging.getLogger(__name__)

MAX_EXCERPT = 200
"""Characters of a rejected text that are kept for a person to see."""


class WorkRecord(BaseModel):
    """What one finished unit of work left: its parts by table, its counters and its cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: int
    parts: dict[str, PartRecord]
    counters: dict[str, int]
    cpu_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class BuildPlace:
    """Where a build writes; small and picklable, so that it travels to workers."""

    store_root: str
    stage: str
    fingerprint: str

    @property
    def final(self) -> str:
        return posixpath.join(self.stage, self.fingerprint)

    @property
    def partial(self) -> str:
        return posixpath.join(self.stage, f".{self.fingerprint}.partial")


class PartWriter:
    """Writes one unit of work: at most one part of each table, with counters; finished by `commit`.

    Memory is bounded by what the caller passes to `write` at once and one Parquet row group.
    """

    def __init__(self, place: BuildPlace, index: int) -> None:
        self.index = index
        self.counters: Counter[str] = Counter()
        self._place = place
        self._store = ArtifactStore(place.store_root)
        self._writers: dict[str, _TableWriter] = {}
        self._rejects: list[dict[str, str]] = []

    def write(self, table: str, rows: pa.Table | list[dict[str, Any]]) -> None:
        """Append rows to this unit's part of a table; columns and types must be those of its schema."""
        schema = schemas.TABLES[table]
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist(rows, schema=schema)
        if table not in self._writers:
            self._writers[table] = _TableWriter(table, _staging_folder(self._store, self._place))
        with _explained(f"{self._place.final}, table {table}, part {self.index}"):
            self._writers[table].write(rows.cast(schema))

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the manifest."""
        self.counters[name] += amount

    def reject(self, *, doc_id: str, source: str, reason: str, detail: str, text: str) -> None:
        """Record a dropped row with its reason; it lands in the table rejects and in a counter."""
        self.count(f"rejected_{reason}")
        self._rejects.append(
            {
                "doc_id": doc_id,
                "source": source,
                "reason": reason,
                "detail": detail,
                "excerpt": text[:MAX_EXCERPT],
            }
        )
        if len(self._rejects) >= 10_000:
            self._flush_rejects()

    def commit(self, usage: Usage) -> WorkRecord:
        """Move the finished files into the build and write the record that vouches for them."""
        self._flush_rejects()
        parts = {}
        for table, writer in self._writers.items():
            parts[table] = self._publish(table, writer)
        record = WorkRecord(
            index=self.index,
            parts=parts,
            counters=dict(self.counters),
            cpu_seconds=usage.cpu_seconds,
            peak_memory_bytes=usage.peak_memory_bytes,
        )
        location = posixpath.join(self._place.partial, "records", f"{self.index:05d}.json")
        _put(self._store, self._place, record.model_dump_json().encode(), location)
        return record

    def discard(self) -> None:
        """Drop what was written so far."""
        for writer in self._writers.values():
            writer.discard()

    def _flush_rejects(self) -> None:
        rows, self._rejects = self._rejects, []
        if rows:
            self.write("rejects", rows)

    def _publish(self, table: str, writer: _TableWriter) -> PartRecord:
        relative = posixpath.join(table, f"part-{self.index:05d}.parquet")
        with _explained(relative):
            file, rows = writer.close()
        size, digest = _publish(self._store, file, content_path(self._store, self._place, relative))
        writer.discard()
        return PartRecord(path=relative, bytes=size, sha256=digest, rows=rows)


class _TableWriter:
    """A Parquet file under construction in a private local folder."""

    def __init__(self, table: str, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{table}.parquet"
        self._rows = 0
        self._writer = pyarrow.parquet.ParquetWriter(self._file, schemas.TABLES[table], compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        self._writer.write_table(rows)

    def close(self) -> tuple[Path, int]:
        self._writer.close()
        return self._file, self._rows

    def discard(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class ArtifactBuild:
    """One build under way, made by `open_build`; `commit` turns it into the artifact."""

    place: BuildPlace
    store: ArtifactStore
    records: dict[int, WorkRecord] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    _files: list[FileRecord] = field(default_factory=list)

    @property
    def scratch(self) -> str:
        """Folder or URI for state that outlives a killed run; gone once the artifact is committed."""
        path = _absolute(self.store, posixpath.join(self.place.partial, "scratch"))
        self.store.filesystem.makedirs(path, exist_ok=True)
        return path if _is_local(self.store) else self.store.filesystem.unstrip_protocol(path)

    def add_file(self, name: str, source: Path) -> None:
        """Put a finished local file beside the tables under `name` (which may hold slashes)."""
        folder = _staging_folder(self.store, self.place)
        with _explained(name):
            staged = Path(shutil.copyfile(source, folder / "file"))
        size, digest = _publish(self.store, staged, content_path(self.store, self.place, name))
        shutil.rmtree(folder, ignore_errors=True)
        self._files.append(FileRecord(path=name, bytes=size, sha256=digest))

    def add_folder(self, folder: Path) -> None:
        """Put every file below a local folder beside the tables, under its relative name."""
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.add_file(file.relative_to(folder).as_posix(), file)

    def commit(
        self,
        *,
        stage_version: int,
        params: Mapping[str, Any],
        inputs: Mapping[str, InputRecord],
        tables: tuple[str, ...],
        code_version: str,
        wall_seconds: float,
        usage: Usage,
    ) -> Artifact:
        """Write the manifest and publish the build; another builder that was faster wins."""
        counters: Counter[str] = Counter(self.counters)
        for record in self.records.values():
            counters.update(record.counters)
        manifest = Manifest(
            stage=self.place.stage,
            stage_version=stage_version,
            fingerprint=self.place.fingerprint,
            params=dict(params),
            inputs=dict(inputs),
            tables={name: self._table_record(name) for name in tables},
            files=sorted(self._files, key=lambda file: file.path),
            counters=dict(sorted(counters.items())),
            code_version=code_version,
            created_at=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}Z",
            wall_seconds=round(wall_seconds, 3),
            cpu_seconds=round(usage.cpu_seconds + sum(r.cpu_seconds for r in self.records.values()), 3),
            peak_memory_bytes=max([usage.peak_memory_bytes] + [r.peak_memory_bytes for r in self.records.values()]),
        )
        self._publish(manifest)
        artifact = self.store.get(self.place.stage, self.place.fingerprint)
        assert artifact is not None, f"{self.place.final} vanished right after it was committed"
        return artifact

    def _table_record(self, name: str) -> TableRecord:
        parts = [record.parts[name] for _, record in sorted(self.records.items()) if name in record.parts]
        return TableRecord(
            columns=schemas.describe(schemas.TABLES[name]),
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            parts=parts,
        )

    def _publish(self, manifest: Manifest) -> None:
        text = manifest.model_dump_json(indent=1).encode()
        _put(self.store, self.place, text, content_path(self.store, self.place, MANIFEST))
        partial = _absolute(self.store, self.place.partial)
        if _is_local(self.store):
            final = _absolute(self.store, self.place.final)
            if not os.path.exists(posixpath.join(final, MANIFEST)):
                shutil.rmtree(final, ignore_errors=True)
                os.rename(posixpath.join(partial, "content"), final)
                _sync_folder(posixpath.dirname(final))
        with contextlib.suppress(FileNotFoundError):
            self.store.filesystem.rm(partial, recursive=True)


@contextlib.contextmanager
def open_build(store: ArtifactStore, stage: str, fingerprint: str) -> Iterator[ArtifactBuild | None]:
    """Start or resume a build; yields None when the artifact got finished while we waited for the lock."""
    place = BuildPlace(store.root, stage, fingerprint)
    with _lock(store, place):
        if store.get(stage, fingerprint) is not None:
            yield None
            return
        staging = _absolute(store, posixpath.join(place.partial, "staging"))
        if store.filesystem.exists(staging):
            store.filesystem.rm(staging, recursive=True)
        yield ArtifactBuild(place, store, records=_trusted_records(store, place))


def content_path(store: ArtifactStore, place: BuildPlace, relative: str) -> str:
    """Where a file of the build lies, below the store's root, until (or because) it is committed."""
    if _is_local(store):
        return posixpath.join(place.partial, "content", relative)
    return posixpath.join(place.final, relative)


def _put(store: ArtifactStore, place: BuildPlace, data: bytes, location: str) -> None:
    """Write a small file at once or not at all."""
    folder = _staging_folder(store, place)
    file = folder / "small"
    with _explained(location):
        file.write_bytes(data)
    _publish(store, file, location)
    shutil.rmtree(folder, ignore_errors=True)


def _staging_folder(store: ArtifactStore, place: BuildPlace) -> Path:
    """A private local folder: on the store's own disk for a local root, so that publishing is a rename."""
    if not _is_local(store):
        return Path(tempfile.mkdtemp(prefix="yiwen-"))
    path = Path(_absolute(store, posixpath.join(place.partial, "staging", uuid.uuid4().hex)))
    with _explained(str(path)):
        path.mkdir(parents=True)
    return path


def _publish(store: ArtifactStore, staged: Path, location: str) -> tuple[int, str]:
    """Move a staged file to its place in the store; returns its bytes and SHA-256."""
    target = _absolute(store, location)
    with _explained(target):
        size, digest = _hash_and_sync(staged)
        store.filesystem.makedirs(posixpath.dirname(target), exist_ok=True)
        if _is_local(store):
            os.replace(staged, target)
        else:
            store.filesystem.put_file(str(staged), target)
    return size, digest


def _hash_and_sync(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb+") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
        os.fsync(file.fileno())
    return size, digest.hexdigest()


@contextlib.contextmanager
def _explained(target: str) -> Iterator[None]:
    """Turn "no space left" into an error that says what to do; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise StorageFullError(
            f"No room left while writing {target} ({os.strerror(error.errno)}). Free some space or point "
            "YIWEN_HOME elsewhere, then run again: finished parts are kept and reused."
        ) from error


def _trusted_records(store: ArtifactStore, place: BuildPlace) -> dict[int, WorkRecord]:
    """Records of an earlier, killed build whose parts are all there with the right size."""
    folder = _absolute(store, posixpath.join(place.partial, "records"))
    if not store.filesystem.exists(folder):
        return {}
    trusted = {}
    for path in sorted(store.filesystem.ls(folder, detail=False)):
        try:
            record = WorkRecord.model_validate_json(store.filesystem.cat_file(path))
        except ValidationError:
            logger.warning("%s is not readable; that part is computed again", path)
            continue
        if all(_has_size(store, place, part) for part in record.parts.values()):
            trusted[record.index] = record
    return trusted


def _has_size(store: ArtifactStore, place: BuildPlace, part: PartRecord) -> bool:
    path = _absolute(store, content_path(store, place, part.path))
    try:
        return store.filesystem.size(path) == part.bytes
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _lock(store: ArtifactStore, place: BuildPlace) -> Iterator[None]:
    """Hold the build's lock on a local root. The file may be deleted under us by a finished build."""
    if not _is_local(store):
        yield
        return
    path = Path(_absolute(store, posixpath.join(place.partial, "lock")))
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = open(path, "a+")  # noqa: SIM115 - held by the with below
        except FileNotFoundError:
            continue
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logger.info("%s is being built by another run; waiting for it", place.final)
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_same_file(handle.fileno(), path):
                continue
            yield
            return


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _is_local(store: ArtifactStore) -> bool:
    return isinstance(store.filesystem, LocalFileSystem)


def _absolute(store: ArtifactStore, location: str) -> str:
    return posixpath.join(store.base, location)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def run_unit(place: BuildPlace, index: int, function: Any, arguments: tuple[Any, ...]) -> WorkRecord:
    """Do one unit of work: `function(part, *arguments)`, then commit what it wrote."""
    part = PartWriter(place, index)
    try:
        with measure_usage() as usage:
            function(part, *arguments)
        return part.commit(usage)
    finally:
        part.discard()
