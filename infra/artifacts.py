"""The artifact store: immutable, content-addressed folders of Parquet parts under one root.

    <root>/<stage>/<fingerprint>/manifest.json            written last; without it there is no artifact
    <root>/<stage>/<fingerprint>/<table>/part-00000-000.parquet
    <root>/<stage>/<fingerprint>/<file>                   what a stage writes beside its tables
    <root>/<stage>/.<fingerprint>.partial/                a build under way, or what a killed one left

How a build becomes an artifact is told in `infra/builds.py`; this file reads. The root is a local path or
any URI that fsspec opens.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel, ConfigDict, ValidationError

from infra import schemas
from infra.errors import DamagedArtifactError, UserError

MANIFEST = "manifest.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRecord(_Record):
    """One file of an artifact: its place below the artifact, its size in bytes and its SHA-256."""

    path: str
    bytes: int
    sha256: str


class PartRecord(FileRecord):
    """One Parquet part of a table."""

    rows: int


class TableRecord(_Record):
    """One table: its columns (name, type, description) and its parts in order."""

    columns: list[dict[str, str]]
    rows: int
    bytes: int
    parts: list[PartRecord]


class InputRecord(_Record):
    """What an artifact was made from: another artifact, or raw files by their content."""

    stage: str
    fingerprint: str


class Manifest(_Record):
    """What an artifact is, where it came from and what it cost; `manifest.json` holds exactly this."""

    format_version: Literal[1] = 1
    stage: str
    stage_version: int
    fingerprint: str
    params: dict[str, Any]
    inputs: dict[str, InputRecord]
    tables: dict[str, TableRecord]
    files: list[FileRecord]
    counters: dict[str, int]
    code_version: str
    created_at: str
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    resumed_parts: int = 0
    """Parts that an earlier, killed run had finished: `wall_seconds` does not hold their time."""
    taken_over_parts: int = 0
    """Units whose parts an earlier artifact had made from the same work."""


@dataclass(frozen=True)
class Part:
    """One Parquet part of an artifact's table: the unit of parallelism and the bound on memory."""

    root: str
    table: str
    record: PartRecord
    location: str

    @property
    def rows(self) -> int:
        return self.record.rows

    @property
    def unit(self) -> int:
        """The number of the unit of work that wrote it (part-UNIT-NUMBER.parquet)."""
        return int(posixpath.basename(self.record.path).split("-")[1])

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Read the part after checking its size, hash and schema.

        Raises:
            DamagedArtifactError: the part is missing, was changed, or does not have its table's columns.
        """
        filesystem, root = open_root(self.root)
        folder = posixpath.join(root, self.location)
        data = read_checked(filesystem, folder, self.record)
        _check_part(filesystem, folder, self.table, self.record, data)
        return pyarrow.parquet.read_table(pa.BufferReader(data), columns=columns)

    def extremes(self, column: str) -> set[Any]:
        """The least and the greatest value of a column in each row group, as the file's footer tells them, unchecked.

        Raises:
            DamagedArtifactError: the part is missing, or has no footer.
        """
        filesystem, root = open_root(self.root)
        folder = posixpath.join(root, self.location)
        try:
            with filesystem.open(posixpath.join(folder, self.record.path), "rb") as file:
                footer = pyarrow.parquet.ParquetFile(file).metadata
        except FileNotFoundError:
            raise _damaged(filesystem, folder, self.record.path, "the file is missing") from None
        except pa.ArrowInvalid as error:
            raise _damaged(filesystem, folder, self.record.path, str(error)) from None
        place = footer.schema.names.index(column)
        found = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        return {value for group in found if group and group.has_min_max for value in (group.min, group.max)}


@dataclass(frozen=True)
class Artifact:
    """A finished artifact. Reading it checks what is read against the manifest."""

    store_root: str
    location: str
    manifest: Manifest
    _verified: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def stage(self) -> str:
        return self.manifest.stage

    @property
    def fingerprint(self) -> str:
        return self.manifest.fingerprint

    @cached_property
    def path(self) -> Path | str:
        """The folder of the artifact: a `Path` on a local root, a URI elsewhere."""
        filesystem, root = open_root(self.store_root)
        shown = _shown(filesystem, posixpath.join(root, self.location))
        return Path(shown) if isinstance(filesystem, LocalFileSystem) else shown

    def parts(self, table: str | None = None) -> list[Part]:
        """The parts of a table (the stage's first table by default), in order, unread."""
        name = self._table_name(table)
        return [Part(self.store_root, name, record, self.location) for record in self.manifest.tables[name].parts]

    def rows(self, table: str | None = None) -> int:
        """Number of rows of a table, from the manifest."""
        return self.manifest.tables[self._table_name(table)].rows

    def scan(self, table: str | None = None) -> pl.LazyFrame:
        """A lazy polars frame over a table, after checking every part's hash once.

        Raises:
            DamagedArtifactError: a part is missing or damaged; the message names it and the remedy.
        """
        name = self._table_name(table)
        filesystem, root = open_root(self.store_root)
        base = posixpath.join(root, self.location)
        records = self.manifest.tables[name].parts
        for record in records:
            if record.path not in self._verified:
                _check_part(filesystem, base, name, record, read_checked(filesystem, base, record))
                self._verified.add(record.path)
        if not records:
            return pl.DataFrame(schemas.TABLES[name].empty_table()).lazy()
        paths = [posixpath.join(base, record.path) for record in records]
        if isinstance(filesystem, LocalFileSystem):
            # A root may hold characters that polars would take for a pattern or for a hive partition.
            return pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        return pl.scan_pyarrow_dataset(pyarrow.dataset.dataset(paths, filesystem=filesystem, format="parquet"))

    def to_table(self, table: str | None = None) -> pa.Table:
        """The whole table in memory, checked. For small tables: memory grows with its rows."""
        name = self._table_name(table)
        tables = [part.read() for part in self.parts(name)]
        return pa.concat_tables(tables) if tables else schemas.TABLES[name].empty_table()

    def read_file(self, name: str) -> bytes:
        """The content of a file that lies beside the tables, checked against its hash."""
        filesystem, root = open_root(self.store_root)
        return read_checked(filesystem, posixpath.join(root, self.location), self._file_record(name))

    def download(self, directory: Path, folder: str = "") -> Path:
        """Copy the files beside the tables (those below `folder`) into a local directory, checked."""
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        for record in self.manifest.files:
            if record.path.startswith(prefix):
                target = directory / record.path.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.read_file(record.path))
        return directory

    def verify(self) -> None:
        """Read and check every byte of the artifact; raises `DamagedArtifactError` on the first damage."""
        for table in self.manifest.tables:
            for part in self.parts(table):
                part.read()
        for record in self.manifest.files:
            self.read_file(record.path)

    def _table_name(self, table: str | None) -> str:
        tables = self.manifest.tables
        if table is None and tables:
            return next(iter(tables))
        if table not in tables:
            raise UserError(f"{self.path} has no table {table!r}; it has {', '.join(tables) or 'no tables'}.")
        return table

    def _file_record(self, name: str) -> FileRecord:
        for record in self.manifest.files:
            if record.path == name:
                return record
        known = ", ".join(record.path for record in self.manifest.files) or "none"
        raise UserError(f"{self.path} has no file {name!r}; its files are: {known}.")


class ArtifactStore:
    """All artifacts below one root. Reading never writes; builds are made by `infra.builds`."""

    def __init__(self, root: str | Path) -> None:
        self.filesystem, self.base = open_root(str(root))
        self.is_local = isinstance(self.filesystem, LocalFileSystem)
        # The root travels to workers that have another working directory and perhaps another home.
        self.root = self.base if self.is_local else str(root)

    def get(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact of that address, or None where there is no finished one.

        Raises:
            DamagedArtifactError: its manifest cannot be read, or belongs to another address.
        """
        location = posixpath.join(stage, fingerprint)
        try:
            text = self.filesystem.cat_file(posixpath.join(self.base, location, MANIFEST))
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            manifest = Manifest.model_validate_json(text)
        except ValidationError as error:
            raise self._damaged_manifest(location, f"it is not readable ({_first_problem(error)})") from error
        if (manifest.stage, manifest.fingerprint) != (stage, fingerprint) or _address(manifest) != fingerprint:
            raise self._damaged_manifest(location, "it does not describe the work that belongs at this address")
        return Artifact(self.root, location, manifest)

    def latest(self, stage: str) -> Artifact | None:
        """The artifact of a stage that was computed last, or None: a run that reuses an older one leaves it so.

        Raises as `get` does.
        """
        artifacts = list(self._of_stage(stage))
        return max(artifacts, key=lambda a: (a.manifest.created_at, a.fingerprint), default=None)

    def list(self, stage: str | None = None) -> Sequence[Artifact]:
        """Every finished artifact (of one stage), ordered by stage and time. Raises as `get` does."""
        stages = self._children("") if stage is None else [stage]
        found = [artifact for name in stages for artifact in self._of_stage(name)]
        return sorted(found, key=lambda a: (a.stage, a.manifest.created_at, a.fingerprint))

    def _of_stage(self, stage: str) -> Iterator[Artifact]:
        for fingerprint in self._children(stage):
            artifact = self.get(stage, fingerprint)
            if artifact is not None:
                yield artifact

    def _children(self, location: str) -> Sequence[str]:
        path = posixpath.join(self.base, location) if location else self.base
        self.filesystem.invalidate_cache()
        try:
            entries = self.filesystem.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Not "is a directory": a stage's folder may be a link to another disk.
        names = [posixpath.basename(e["name"].rstrip("/")) for e in entries if e["type"] != "file"]
        return sorted(name for name in names if not name.startswith("."))

    def _damaged_manifest(self, location: str, problem: str) -> DamagedArtifactError:
        return _damaged(self.filesystem, posixpath.join(self.base, location), MANIFEST, problem)


def fingerprint_of(stage: str, version: int, params: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """The address of a piece of work: 32 hex digits over stage, version, parameters and input fingerprints.

    Key order and spacing do not matter: parameters and inputs are hashed as canonical JSON.

    Raises:
        UserError: a parameter has no canonical JSON: NaN, infinity, half a character.
    """
    work = {"stage": stage, "version": version, "params": params, "inputs": inputs}
    try:
        text = json.dumps(work, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
    except ValueError as error:
        raise UserError(
            f"The parameters of stage {stage} cannot be written down ({error}): {dict(params)}. "
            "Give finite numbers and whole text."
        ) from error


def open_root(root: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The filesystem of a root and the root's path on it.

    Raises:
        UserError: no filesystem is known for the URI's scheme, or its package is not installed, or the URI
            holds a character that fsspec takes for a pattern (and would delete by).
    """
    try:
        filesystem, path = fsspec.core.url_to_fs(root)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"YIWEN_HOME={root!r} cannot be opened: {error}. Give a local path, or install the fsspec "
            "package for that scheme (s3fs, gcsfs, …)."
        ) from error
    if set("*?[") & set(path) and not isinstance(filesystem, LocalFileSystem):
        raise UserError(f"YIWEN_HOME={root!r}: a URI must not hold any of * ? [ here. Choose another folder.")
    return filesystem, path.rstrip("/") or "/"


def read_checked(filesystem: fsspec.AbstractFileSystem, folder: str, record: FileRecord) -> bytes:
    """The bytes of a recorded file below an artifact's folder.

    Raises:
        DamagedArtifactError: the file is missing, or its size or hash is not the recorded one.
    """
    try:
        data = filesystem.cat_file(posixpath.join(folder, record.path))
    except (FileNotFoundError, NotADirectoryError):
        raise _damaged(filesystem, folder, record.path, "the file is missing") from None
    if len(data) != record.bytes:
        problem = f"it has {len(data):,} bytes, the manifest says {record.bytes:,}"
        raise _damaged(filesystem, folder, record.path, problem)
    if hashlib.sha256(data).hexdigest() != record.sha256:
        problem = "its content does not have the hash that the manifest says"
        raise _damaged(filesystem, folder, record.path, problem)
    return data


def _check_part(
    filesystem: fsspec.AbstractFileSystem, folder: str, table: str, record: PartRecord, data: bytes
) -> None:
    try:
        found = pyarrow.parquet.ParquetFile(pa.BufferReader(data))
        problems = schemas.differences(found.schema_arrow, schemas.TABLES[table])
        if found.metadata.num_rows != record.rows:
            problems.append(f"{found.metadata.num_rows:,} rows instead of {record.rows:,}")
    except pa.ArrowInvalid as error:
        problems = [str(error)]
    if problems:
        problem = f"it is not the part of {table} that the manifest says: {'; '.join(problems)}"
        raise _damaged(filesystem, folder, record.path, problem)


def _address(manifest: Manifest) -> str:
    inputs = {name: given.fingerprint for name, given in manifest.inputs.items()}
    return fingerprint_of(manifest.stage, manifest.stage_version, manifest.params, inputs)


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return ": ".join([*map(str, first["loc"]), first["msg"]])


def _shown(filesystem: fsspec.AbstractFileSystem, path: str) -> str:
    return path if isinstance(filesystem, LocalFileSystem) else filesystem.unstrip_protocol(path)


def _damaged(filesystem: fsspec.AbstractFileSystem, folder: str, file: str, problem: str) -> DamagedArtifactError:
    return DamagedArtifactError(
        f"Damaged artifact: {_shown(filesystem, posixpath.join(folder, file))}: {problem}. "
        f"Delete {_shown(filesystem, folder)} and run again: the stage is then computed anew."
    )
