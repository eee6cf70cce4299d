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
when its holder dies). Elsewhere there is no lock: both write the same bytes to the same places, each file
put whole or not at all as object stores do, and the last manifest stands.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import itertools
import logging
import os
import posixpath
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
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
    read_checked,
)
from infra.errors import DamagedArtifactError, StorageFullError, UserError
from infra.memo import UNITS, UnitRecord, units_json
from infra.usage import Usage, measure_usage

logger = logging.getLogger(__name__)

MAX_EXCERPT = 200
"""Characters of a rejected text that are kept for a person to see."""

PART_BYTES = 64 * 2**20
"""Size in memory at which a part is full."""

REJECTS_AT_ONCE = 10_000

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 64 * 2**20
"""A row group is written when it has this many rows or bytes, however few rows a stage writes at once."""


class WorkRecord(BaseModel):
    """What one finished unit of work left: its parts by table, its counters and its cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: int
    parts: dict[str, list[PartRecord]]
    counters: dict[str, int]
    cpu_seconds: float
    peak_memory_bytes: int
    key: str = ""
    """What names the work (`infra.memo.WorkKeys`); empty where it cannot be named."""


@dataclass(frozen=True)
class Unit:
    """One unit of work: its number, what its function is given, and the name of the work as of `WorkRecord`."""

    index: int
    arguments: tuple[Any, ...]
    key: str = ""


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
    """Writes one unit of work: its parts of each table, with counters; ended by `finish` and `commit`.

    A table goes on in another part once one holds `PART_BYTES`, so that who reads a part whole is bounded too.
    Memory is bounded by what the caller passes to `write` at once and one Parquet row group a table.
    """

    def __init__(self, place: BuildPlace, index: int) -> None:
        self.index = index
        self.counters: Counter[str] = Counter()
        self._place = place
        self._store = ArtifactStore(place.store_root)
        self._writers: dict[str, _TableWriter] = {}
        self._parts: dict[str, list[PartRecord]] = {}
        self._rejects: list[dict[str, str]] = []

    def write(self, table: str, rows: pa.Table | list[dict[str, Any]]) -> None:
        """Append rows to this unit's part of a table.

        Raises:
            ValueError: a column is missing or surplus, or a value does not fit its column (a defect of the stage).
        """
        try:
            rows = schemas.conform(rows, table)
        except (ValueError, pa.ArrowException) as error:
            raise ValueError(f"stage {self._place.stage}, part {self.index}, table {table}: {error}") from error
        with explained(_absolute(self._store, _content_path(self._store, self._place, table))):
            if table not in self._writers:
                self._writers[table] = _TableWriter(table, _staging_folder(self._store, self._place))
            self._writers[table].write(rows)
        if self._writers[table].bytes > PART_BYTES:
            self._finish_part(table)

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
        if len(self._rejects) >= REJECTS_AT_ONCE:
            self._flush_rejects()

    def finish(self) -> None:
        """Move the finished files into the build: much of a unit's work, so it is measured with it."""
        self._flush_rejects()
        for table in list(self._writers):
            self._finish_part(table)

    def commit(self, usage: Usage, key: str = "") -> WorkRecord:
        """Write the record that vouches for the files of `finish`: what they cost, and the name of their work."""
        record = WorkRecord(
            index=self.index,
            parts=self._parts,
            counters=dict(self.counters),
            cpu_seconds=usage.cpu_seconds,
            peak_memory_bytes=usage.peak_memory_bytes,
            key=key,
        )
        _put_record(self._store, self._place, record)
        return record

    def discard(self) -> None:
        """Drop what was written so far."""
        for writer in self._writers.values():
            writer.discard()

    def _flush_rejects(self) -> None:
        rows, self._rejects = self._rejects, []
        if rows:
            self.write("rejects", rows)

    def _finish_part(self, table: str) -> None:
        writer = self._writers[table]
        parts = self._parts.setdefault(table, [])
        relative = _part_path(table, self.index, len(parts))
        location = _content_path(self._store, self._place, relative)
        with explained(_absolute(self._store, location)):
            file, rows = writer.close()
        size, digest = _publish(self._store, file, location)
        writer.discard()
        del self._writers[table]
        parts.append(PartRecord(path=relative, bytes=size, sha256=digest, rows=rows))


class _TableWriter:
    """A Parquet file under construction in a private local folder."""

    def __init__(self, table: str, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{table}.parquet"
        self._rows = 0
        self.bytes = 0
        """Size in memory of what was written so far."""
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        schema = schemas.TABLES[table]
        few_values = [name for name in schema.names if name in schemas.FEW_VALUES]
        self._writer = pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="zstd", use_dictionary=few_values or False
        )

    def write(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        self.bytes += rows.nbytes
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> tuple[Path, int]:
        self._flush()
        self._writer.close()
        return self._file, self._rows

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # left open, it would be closed later, where nobody catches
            self._writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _flush(self) -> None:
        rows, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        if rows:
            self._writer.write_table(pa.concat_tables(rows).combine_chunks())


@dataclass
class ArtifactBuild:
    """One build under way, made by `open_build`; `commit` turns it into the artifact."""

    place: BuildPlace
    store: ArtifactStore
    finished: Mapping[int, WorkRecord]
    """What an earlier, killed run finished, by unit; a stage takes over those that it asks for again."""
    records: dict[int, WorkRecord] = field(default_factory=dict)
    """The units that make up the artifact; what an earlier run left beyond them is dropped."""
    counters: Counter[str] = field(default_factory=Counter)
    _files: dict[str, FileRecord] = field(default_factory=dict)

    @property
    def scratch(self) -> str:
        """Folder or URI for state that outlives a killed run; gone once the artifact is committed."""
        path = _absolute(self.store, posixpath.join(self.place.partial, "scratch"))
        with explained(path):
            self.store.filesystem.makedirs(path, exist_ok=True)
        return path if self.store.is_local else self.store.filesystem.unstrip_protocol(path)

    def add_file(self, name: str, source: Path) -> None:
        """Put a finished local file beside the tables under `name` (which may hold slashes)."""
        if name == MANIFEST or posixpath.isabs(name) or {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"stage {self.place.stage}: {name!r} cannot be the name of a file in an artifact")
        with _staging(self.store, self.place) as folder:
            with explained(str(folder)):
                staged = Path(shutil.copyfile(source, folder / "file"))
            size, digest = _publish(self.store, staged, _content_path(self.store, self.place, name))
        self._files[name] = FileRecord(path=name, bytes=size, sha256=digest)

    def take_over(self, index: int, source: Artifact, unit: UnitRecord) -> WorkRecord | None:
        """Link the parts of an earlier artifact's unit into this build; None where they are not whole any more."""
        folder = _absolute(self.store, source.location)
        parts: dict[str, list[PartRecord]] = {}
        try:
            for table, records in unit.parts.items():
                parts[table] = []
                for number, record in enumerate(records):
                    read_checked(self.store.filesystem, folder, record)
                    moved = record.model_copy(update={"path": _part_path(table, index, number)})
                    _link(
                        self.store,
                        posixpath.join(folder, record.path),
                        _content_path(self.store, self.place, moved.path),
                    )
                    parts[table].append(moved)
        except DamagedArtifactError as error:
            logger.warning("%s That part is computed again.", error)
            return None
        taken = WorkRecord(
            index=index, parts=parts, counters=unit.counters, cpu_seconds=0, peak_memory_bytes=0, key=unit.key
        )
        _put_record(self.store, self.place, taken)
        return taken

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
        resumed_parts: int,
        taken_over_parts: int,
        usage: Usage,
    ) -> Artifact:
        """Write the manifest and publish the build."""
        self._write_units()
        manifest = Manifest(
            stage=self.place.stage,
            stage_version=stage_version,
            fingerprint=self.place.fingerprint,
            params=dict(params),
            inputs=dict(inputs),
            tables={name: self._table_record(name) for name in tables},
            files=[file for _, file in sorted(self._files.items())],
            counters=dict(sorted(self.total_counters().items())),
            code_version=code_version,
            created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
            wall_seconds=round(wall_seconds, 3),
            cpu_seconds=round(usage.cpu_seconds + sum(r.cpu_seconds for r in self.records.values()), 3),
            peak_memory_bytes=max([usage.peak_memory_bytes] + [r.peak_memory_bytes for r in self.records.values()]),
            resumed_parts=resumed_parts,
            taken_over_parts=taken_over_parts,
        )
        self._publish(manifest)
        return Artifact(self.store.root, self.place.final, manifest)

    def total_counters(self) -> Counter[str]:
        """The build's counters and those of its finished units."""
        total: Counter[str] = Counter(self.counters)
        for record in self.records.values():
            total.update(record.counters)
        return total

    def _write_units(self) -> None:
        """What later builds of the stage may take over."""
        units = [
            UnitRecord(key=record.key, parts=record.parts, counters=record.counters)
            for _, record in sorted(self.records.items())
            if record.key
        ]
        if units:
            data = units_json(units)
            _put(self.store, self.place, data, _content_path(self.store, self.place, UNITS))
            self._files[UNITS] = FileRecord(path=UNITS, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def _table_record(self, name: str) -> TableRecord:
        units = [record for _, record in sorted(self.records.items())]
        parts = [part for record in units for part in record.parts.get(name, [])]
        return TableRecord(
            columns=schemas.describe(schemas.TABLES[name]),
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            parts=parts,
        )

    def _publish(self, manifest: Manifest) -> None:
        if self.store.is_local:
            self._drop_strays(manifest)
        text = manifest.model_dump_json(indent=1).encode()
        _put(self.store, self.place, text, _content_path(self.store, self.place, MANIFEST))
        if self.store.is_local:
            self._move_to_final()
        _remove(self.store, self.place.partial)

    def _move_to_final(self) -> None:
        final = _absolute(self.store, self.place.final)
        if os.path.exists(posixpath.join(final, MANIFEST)):
            logger.warning("%s was finished by another run meanwhile: this disk does not keep locks", final)
            return
        with explained(final):
            shutil.rmtree(final, ignore_errors=True)  # a folder that nobody finished
            os.rename(_absolute(self.store, _content_path(self.store, self.place, "")), final)
            _sync(posixpath.dirname(final))

    def _drop_strays(self, manifest: Manifest) -> None:
        """Delete what a killed run put into content/ and this one does not vouch for."""
        parts = [part.path for table in manifest.tables.values() for part in table.parts]
        vouched = {*parts, *(file.path for file in manifest.files)}
        content = Path(_absolute(self.store, _content_path(self.store, self.place, "")))
        for file in content.rglob("*"):
            if file.is_file() and file.relative_to(content).as_posix() not in vouched:
                file.unlink()


@contextlib.contextmanager
def open_build(store: ArtifactStore, stage: str, fingerprint: str) -> Iterator[ArtifactBuild | None]:
    """Start or resume a build; yields None when the artifact got finished while we waited for the lock."""
    place = BuildPlace(store.root, stage, fingerprint)
    with _lock(store, place):
        if store.get(stage, fingerprint) is not None:
            _remove(store, place.partial)
            yield None
            return
        _remove(store, posixpath.join(place.partial, "staging"))
        yield ArtifactBuild(place, store, finished=_trusted_records(store, place))


def sweep(store: ArtifactStore, stage: str, fingerprint: str) -> None:
    """Delete what a builder left that was killed between its commit and its tidying up."""
    place = BuildPlace(store.root, stage, fingerprint)
    if store.filesystem.exists(_absolute(store, place.partial)):
        with contextlib.suppress(UserError), _lock(store, place):  # a root that is only read stays as it is
            _remove(store, place.partial)


def _part_path(table: str, index: int, number: int) -> str:
    """Where a part lies in its artifact: the number of the unit, and of the part within it."""
    return posixpath.join(table, f"part-{index:05d}-{number:03d}.parquet")


def _put_record(store: ArtifactStore, place: BuildPlace, record: WorkRecord) -> None:
    location = posixpath.join(place.partial, "records", f"{record.index:05d}.json")
    _put(store, place, record.model_dump_json().encode(), location)


def _link(store: ArtifactStore, source: str, location: str) -> None:
    """Let a finished file stand in this build too: by a hard link where the disk has them, by a copy elsewhere."""
    target = _absolute(store, location)
    with explained(target):
        store.filesystem.makedirs(posixpath.dirname(target), exist_ok=True)
        if not store.is_local:
            store.filesystem.cp_file(source, target)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)  # left by a build that was killed before its record was written
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
            _sync(target)


def _content_path(store: ArtifactStore, place: BuildPlace, relative: str) -> str:
    """Where a file of the build lies, below the store's root, until (or because) it is committed."""
    if store.is_local:
        return posixpath.join(place.partial, "content", relative)
    return posixpath.join(place.final, relative)


def _put(store: ArtifactStore, place: BuildPlace, data: bytes, location: str) -> None:
    """Write a small file at once or not at all."""
    with _staging(store, place) as folder:
        file = folder / "small"
        with explained(_absolute(store, location)):
            file.write_bytes(data)
        _publish(store, file, location)


@contextlib.contextmanager
def _staging(store: ArtifactStore, place: BuildPlace) -> Iterator[Path]:
    folder = _staging_folder(store, place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _staging_folder(store: ArtifactStore, place: BuildPlace) -> Path:
    """A private local folder: on the store's own disk for a local root, so that publishing is a rename."""
    if not store.is_local:
        return Path(tempfile.mkdtemp(prefix="yiwen-"))
    path = Path(_absolute(store, posixpath.join(place.partial, "staging", uuid.uuid4().hex)))
    with explained(str(path)):
        path.mkdir(parents=True)
    return path


def _publish(store: ArtifactStore, staged: Path, location: str) -> tuple[int, str]:
    """Move a staged file to its place in the store; returns its bytes and SHA-256."""
    target = _absolute(store, location)
    with explained(target):
        size, digest = _measure(staged)
        if store.is_local:
            _sync(staged)
            os.makedirs(posixpath.dirname(target), exist_ok=True)
            os.replace(staged, target)
        else:
            store.filesystem.makedirs(posixpath.dirname(target), exist_ok=True)
            store.filesystem.put_file(str(staged), target)
    return size, digest


def _remove(store: ArtifactStore, location: str) -> None:
    """Delete a folder of the build; what another builder puts there meanwhile is left for it to delete."""
    path = _absolute(store, location)
    if store.is_local:
        shutil.rmtree(path, ignore_errors=True)
        return
    store.filesystem.invalidate_cache()
    with contextlib.suppress(OSError):
        store.filesystem.rm(path, recursive=True)


def _measure(path: Path) -> tuple[int, str]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


@contextlib.contextmanager
def open_scratch(path: str) -> Iterator[io.BytesIO]:
    """A file of a build's scratch, to be written; its bytes are held in memory until the block ends well.

    Only then are they put there, by us: polars would tell of a full disk by an error without its number.

    Raises:
        StorageFullError, UserError: as `explained` says.
    """
    memory = io.BytesIO()
    yield memory
    with explained(path), fsspec.open(path, "wb") as file:
        file.write(memory.getbuffer())


@contextlib.contextmanager
def explained(target: str) -> Iterator[None]:
    """Turn "no space left" and "not allowed" while `target` is written into errors that say what to do.

    Raises:
        StorageFullError: the disk or the quota is full, or the file is longer than files may be.
        UserError: this user may not write there. Other errors pass as they are.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or target
        if error.errno in _ROOM:
            raise StorageFullError(
                f"No room left while writing {where} ({os.strerror(error.errno)}). {_ROOM[error.errno]}, "
                "then run again: finished parts are kept and reused."
            ) from error
        if error.errno in _CLOSED:
            raise UserError(
                f"{where} cannot be written ({os.strerror(error.errno)}). Point YIWEN_HOME at a folder that "
                "this user may write to."
            ) from error
        raise


_ROOM = {
    errno.ENOSPC: "Free some space there or point YIWEN_HOME (for a remote root: TMPDIR) at another disk",
    errno.EDQUOT: "Free some of your quota or point YIWEN_HOME at another disk",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def _trusted_records(store: ArtifactStore, place: BuildPlace) -> dict[int, WorkRecord]:
    """Records of an earlier, killed build whose parts are all there, byte for byte."""
    content = _absolute(store, _content_path(store, place, ""))
    trusted = {}
    for path in _record_files(store, place):
        try:
            record = WorkRecord.model_validate_json(store.filesystem.cat_file(path))
            for part in itertools.chain.from_iterable(record.parts.values()):
                read_checked(store.filesystem, content, part)
        except (ValidationError, DamagedArtifactError, FileNotFoundError):
            logger.warning("%s or what it vouches for is not whole; that part is computed again", path)
            continue
        trusted[record.index] = record
    return trusted


def _record_files(store: ArtifactStore, place: BuildPlace) -> list[str]:
    store.filesystem.invalidate_cache()
    try:
        paths = store.filesystem.ls(_absolute(store, posixpath.join(place.partial, "records")), detail=False)
    except FileNotFoundError:
        return []
    return sorted(path for path in paths if path.endswith(".json"))


@contextlib.contextmanager
def _lock(store: ArtifactStore, place: BuildPlace) -> Iterator[None]:
    """Hold the build's lock on a local root. The file may be deleted under us by a finished build."""
    if not store.is_local:
        yield
        return
    path = _absolute(store, posixpath.join(place.partial, "lock"))
    while True:
        descriptor = _open_lock(path)
        _lock_descriptors.add(descriptor)
        try:
            _wait_for(descriptor, place)
            if _is_same_file(descriptor, path):
                yield
                return
        finally:
            _lock_descriptors.discard(descriptor)
            os.close(descriptor)


def _open_lock(path: str) -> int:
    folder = posixpath.dirname(path)
    with explained(path):
        os.makedirs(posixpath.dirname(folder), exist_ok=True)
        while True:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            with contextlib.suppress(FileNotFoundError):  # a finished build has just deleted the folder
                return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _wait_for(descriptor: int, place: BuildPlace) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.info("%s is being built by another run; waiting for it", place.final)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


_lock_descriptors: set[int] = set()


def _drop_inherited_locks() -> None:
    # A forked worker shares its parent's lock and could outlive it: the lock must die with its holder.
    for descriptor in _lock_descriptors:
        os.close(descriptor)
    _lock_descriptors.clear()


os.register_at_fork(after_in_child=_drop_inherited_locks)


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _absolute(store: ArtifactStore, location: str) -> str:
    return posixpath.join(store.base, location)


def _sync(path: str | Path) -> None:
    """Wait until a file or folder is on the disk, so that a power cut cannot undo what is renamed after it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def run_unit(place: BuildPlace, function: Callable[..., None], unit: Unit) -> WorkRecord:
    """Do one unit of work: `function(part, *arguments)`, then commit what it wrote."""
    part = PartWriter(place, unit.index)
    try:
        with measure_usage() as usage:
            function(part, *unit.arguments)
            part.finish()
        return part.commit(usage, unit.key)
    finally:
        part.discard()
