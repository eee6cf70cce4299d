"""The artifact store: immutable, content-addressed folders of Parquet parts under one root.

    <root>/<stage>/<fingerprint>/manifest.json            written last; without it there is no artifact
    <root>/<stage>/<fingerprint>/<table>/part-00000.parquet
    <root>/<stage>/<fingerprint>/<file>                   what a stage writes beside its tables
    <root>/<stage>/.<fingerprint>.partial/                a build under way, or what a killed one left

How a build becomes an artifact is told in `infra/builds.py`; this file reads. The root is a local path or
any URI that fsspec opens.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

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
FORMAT_VERSION = 1


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

    format_version: int = FORMAT_VERSION
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

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Read the part after checking its size, hash and schema.

        Raises:
            DamagedArtifactError: the part is missing, was changed, or does not have its table's columns.
        """
        filesystem, root = open_root(self.root)
        data = _read_checked(filesystem, posixpath.join(root, self.location), self.record)
        table = pyarrow.parquet.read_table(io.BytesIO(data), columns=columns)
        if columns is None:
            _check_schema(self.table, table.schema, posixpath.join(root, self.location, self.record.path))
        return table


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
        full = posixpath.join(root, self.location)
        return Path(full) if isinstance(filesystem, LocalFileSystem) else filesystem.unstrip_protocol(full)

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
                data = _read_checked(filesystem, base, record)
                _check_schema(name, pyarrow.parquet.read_schema(io.BytesIO(data)), posixpath.join(base, record.path))
                self._verified.add(record.path)
        if not records:
            return pl.DataFrame(schemas.TABLES[name].empty_table()).lazy()
        paths = [posixpath.join(base, record.path) for record in records]
        if isinstance(filesystem, LocalFileSystem):
            return pl.scan_parquet(paths)
        return pl.scan_pyarrow_dataset(pyarrow.dataset.dataset(paths, filesystem=filesystem, format="parquet"))

    def to_table(self, table: str | None = None) -> pa.Table:
        """The whole table in memory, checked. For small tables: memory grows with its rows."""
        name = self._table_name(table)
        tables = [part.read() for part in self.parts(name)]
        return pa.concat_tables(tables) if tables else schemas.TABLES[name].empty_table()

    def read_file(self, name: str) -> bytes:
        """The content of a file that lies beside the tables, checked against its hash."""
        filesystem, root = open_root(self.store_root)
        return _read_checked(filesystem, posixpath.join(root, self.location), self._file_record(name))

    def download(self, directory: Path, prefix: str = "") -> Path:
        """Copy the files below `prefix` that lie beside the tables into a local directory, checked."""
        for record in self.manifest.files:
            if record.path.startswith(prefix):
                target = directory / record.path.removeprefix(prefix).lstrip("/")
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
        self.root = str(root)
        self.filesystem, self.base = open_root(self.root)

    def get(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact of that address, or None where there is no finished one.

        Raises:
            DamagedArtifactError: its manifest cannot be read.
        """
        location = posixpath.join(stage, fingerprint)
        path = posixpath.join(self.base, location, MANIFEST)
        try:
            text = self.filesystem.cat_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            manifest = Manifest.model_validate_json(text)
        except ValidationError as error:
            raise _damaged(path, f"the manifest is not readable ({error.errors()[0]['msg']})") from error
        return Artifact(self.root, location, manifest)

    def latest(self, stage: str) -> Artifact | None:
        """The artifact of a stage that was finished last, or None."""
        artifacts = list(self._of_stage(stage))
        return max(artifacts, key=lambda a: (a.manifest.created_at, a.fingerprint), default=None)

    def list(self) -> Sequence[Artifact]:
        """Every finished artifact, ordered by stage and time."""
        found = [artifact for stage in self._children("") for artifact in self._of_stage(stage)]
        return sorted(found, key=lambda a: (a.stage, a.manifest.created_at, a.fingerprint))

    def _of_stage(self, stage: str) -> Iterator[Artifact]:
        for fingerprint in self._children(stage):
            artifact = self.get(stage, fingerprint)
            if artifact is not None:
                yield artifact

    def _children(self, location: str) -> Sequence[str]:
        path = posixpath.join(self.base, location) if location else self.base
        try:
            entries = self.filesystem.ls(path, detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = [posixpath.basename(e["name"].rstrip("/")) for e in entries if e["type"] == "directory"]
        return sorted(name for name in names if not name.startswith("."))


def fingerprint_of(stage: str, version: int, params: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """The address of a piece of work: 32 hex digits over stage, version, parameters and input fingerprints.

    Key order and spacing do not matter: parameters and inputs are hashed as canonical JSON.
    """
    work = {"stage": stage, "version": version, "params": params, "inputs": inputs}
    text = json.dumps(work, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def open_root(root: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The filesystem of a root and the root's path on it.

    Raises:
        UserError: no filesystem is known for the URI's scheme, or its package is not installed.
    """
    try:
        filesystem, path = fsspec.core.url_to_fs(root)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"YIWEN_HOME={root!r} cannot be opened: {error}. Give a local path, or install the fsspec "
            "package for that scheme (s3fs, gcsfs, …)."
        ) from error
    return filesystem, path.rstrip("/") or "/"


def _read_checked(filesystem: fsspec.AbstractFileSystem, base: str, record: FileRecord) -> bytes:
    path = posixpath.join(base, record.path)
    try:
        data = filesystem.cat_file(path)
    except FileNotFoundError:
        raise _damaged(path, "the file is missing") from None
    if len(data) != record.bytes:
        raise _damaged(path, f"it has {len(data):,} bytes, the manifest says {record.bytes:,}")
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise _damaged(path, "its content does not have the hash that the manifest says")
    return data


def _check_schema(table: str, found: pa.Schema, path: str) -> None:
    problems = schemas.differences(found, schemas.TABLES[table])
    if problems:
        raise _damaged(path, f"it does not follow the schema of {table}: {'; '.join(problems)}")


def _damaged(path: str, problem: str) -> DamagedArtifactError:
    return DamagedArtifactError(
        f"Damaged artifact: {path}: {problem}. Delete the artifact's folder and run again: "
        "the stage is then computed anew."
    )
