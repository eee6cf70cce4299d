"""Finished artifacts and their parts, and the store that finds them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from infra import schemas
from infra.artifacts.checked_files import damaged, open_root, read_checked, shown
from infra.artifacts.manifest import MANIFEST, FileRecord, Manifest, PartRecord
from infra.console.displayed import heading, paragraph, shown_path
from infra.console.displayed import table as table_of
from infra.errors import DamagedArtifactError, UserError


@dataclass(frozen=True)
class Part:
    """One Parquet part of an artifact's table: the unit of parallelism and the bound on memory."""

    root: str
    table: str
    record: PartRecord
    location: str

    @property
    def rows(self) -> int:
        """Number of rows, from the manifest."""
        return self.record.rows

    @property
    def unit(self) -> int:
        """Number of the unit of work that wrote it, as in `part-UNIT-NUMBER.parquet`."""
        return int(posixpath.basename(self.record.path).split("-")[1])

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Read the part after checking its size, hash and schema.

        Raises:
            DamagedArtifactError: the part is missing, was changed, or lacks the columns of its table.
        """
        filesystem, root = open_root(self.root)
        folder = posixpath.join(root, self.location)
        data = read_checked(filesystem, folder, self.record)
        file = _check_part(filesystem, folder, self.table, self.record, data)
        table = file.read(columns=columns, use_threads=False)
        return table if columns is None else table.select(columns)

    def extremes(self, column: str) -> set[Any]:
        """Return the minimum and maximum of a column in each row group, from the file's footer, unchecked.

        Raises:
            DamagedArtifactError: the part is missing, or has no footer.
        """
        filesystem, root = open_root(self.root)
        folder = posixpath.join(root, self.location)
        try:
            with filesystem.open(posixpath.join(folder, self.record.path), "rb") as file:
                footer = pyarrow.parquet.ParquetFile(file).metadata
        except FileNotFoundError:
            raise damaged(filesystem, folder, self.record.path, "the file is missing") from None
        except pa.ArrowInvalid as error:
            raise damaged(filesystem, folder, self.record.path, str(error)) from None
        place = footer.schema.names.index(column)
        found = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        return {value for group in found if group and group.has_min_max for value in (group.min, group.max)}


@dataclass(frozen=True)
class Artifact:
    """A finished artifact. Whatever is read is first checked against the manifest."""

    store_root: str
    location: str
    manifest: Manifest
    _verified: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def stage(self) -> str:
        """Name of the stage that made it."""
        return self.manifest.stage

    @property
    def fingerprint(self) -> str:
        """Its address within the stage."""
        return self.manifest.fingerprint

    @cached_property
    def path(self) -> Path | str:
        """Folder of the artifact: a `Path` on a local root, a URI elsewhere."""
        filesystem, root = open_root(self.store_root)
        text = shown(filesystem, posixpath.join(root, self.location))
        return Path(text) if isinstance(filesystem, LocalFileSystem) else text

    def __repr__(self) -> str:
        made = self.manifest
        tables = ", ".join(f"{table.rows:,} {name}" for name, table in made.tables.items())
        return f"{made.stage} {made.fingerprint[:8]}: {tables or f'{len(made.files):,} files'}"

    def _repr_html_(self) -> str:
        made = self.manifest
        rows = [*((name, table.rows) for name, table in made.tables.items()), *made.counters.items()]
        where = paragraph(f"{shown_path(self.path)}, made at {made.created_at} in {made.wall_seconds:,.1f} s")
        return heading(self) + table_of(("what", "count"), rows) + where

    def parts(self, table: str | None = None) -> list[Part]:
        """Return the parts of a table (the stage's first table by default) in order, unread."""
        name = self._table_name(table)
        return [Part(self.store_root, name, record, self.location) for record in self.manifest.tables[name].parts]

    def rows(self, table: str | None = None) -> int:
        """Return the number of rows of a table, from the manifest."""
        return self.manifest.tables[self._table_name(table)].rows

    def scan(self, table: str | None = None) -> pl.LazyFrame:
        """Return a lazy polars frame over a table, after checking every part's hash once.

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
            # A root may contain characters that polars would read as a wildcard or as a hive partition (`year=2024`).
            return pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        import pyarrow.dataset  # imports pandas: a third of a second that few flows need

        return pl.scan_pyarrow_dataset(pyarrow.dataset.dataset(paths, filesystem=filesystem, format="parquet"))

    def to_table(self, table: str | None = None) -> pa.Table:
        """Return the whole table in memory, checked. For small tables: memory grows with the rows."""
        name = self._table_name(table)
        tables = [part.read() for part in self.parts(name)]
        return pa.concat_tables(tables) if tables else schemas.TABLES[name].empty_table()

    def read_file(self, name: str) -> bytes:
        """Return the content of a file beside the tables, checked against its hash."""
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
        """Read and check every byte of the artifact; raises `DamagedArtifactError` at the first damage."""
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
            raise UserError(f"{self.path} has no table {table!r}. Tables: {', '.join(tables) or 'none'}.")
        return table

    def _file_record(self, name: str) -> FileRecord:
        for record in self.manifest.files:
            if record.path == name:
                return record
        known = ", ".join(record.path for record in self.manifest.files) or "none"
        raise UserError(f"{self.path} has no file {name!r}. Files: {known}.")


class ArtifactStore:
    """All artifacts below one root. Reading never writes; `infra.builds` makes artifacts."""

    def __init__(self, root: str | Path) -> None:
        self.filesystem, self.base = open_root(str(root))
        self.is_local = isinstance(self.filesystem, LocalFileSystem)
        # The root travels to workers that have another working directory and perhaps another home.
        self.root = self.base if self.is_local else str(root)

    def absolute(self, location: str) -> str:
        """Return the path, on the store's filesystem, of a location below the root."""
        return posixpath.join(self.base, location)

    def get(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return the artifact at an address, or None if no finished one is there.

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
        if (manifest.stage, manifest.fingerprint) != (stage, fingerprint) or manifest.address() != fingerprint:
            raise self._damaged_manifest(location, "it does not describe the work that belongs at this address")
        return Artifact(self.root, location, manifest)

    def latest(self, stage: str) -> Artifact | None:
        """Return the artifact of a stage that was computed last, or None. Reusing an artifact does not make it newer.

        Raises as `get` does.
        """
        artifacts = list(self._of_stage(stage))
        return max(artifacts, key=lambda a: (a.manifest.created_at, a.fingerprint), default=None)

    def list(self, stage: str | None = None) -> Sequence[Artifact]:
        """Return every finished artifact (of one stage), ordered by stage and time. Raises as `get` does."""
        stages = self._children("") if stage is None else [stage]
        found = [artifact for name in stages for artifact in self._of_stage(name)]
        return sorted(found, key=lambda a: (a.stage, a.manifest.created_at, a.fingerprint))

    def stages(self) -> Sequence[str]:
        """Return the names of all stages that have a folder here."""
        return self._children("")

    def fingerprints(self, stage: str) -> Sequence[str]:
        """Return the fingerprints of a stage's artifacts, of which none is looked at: some may be damaged."""
        return self._children(stage)

    def _of_stage(self, stage: str) -> Iterator[Artifact]:
        for fingerprint in self._children(stage):
            artifact = self.get(stage, fingerprint)
            if artifact is not None:
                yield artifact

    def _children(self, location: str) -> Sequence[str]:
        path = self.absolute(location) if location else self.base
        self.filesystem.invalidate_cache()
        try:
            entries = self.filesystem.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Not `type == "directory"`: a stage's folder may be a link to another disk.
        names = [posixpath.basename(e["name"].rstrip("/")) for e in entries if e["type"] != "file"]
        return sorted(name for name in names if not name.startswith("."))

    def _damaged_manifest(self, location: str, problem: str) -> DamagedArtifactError:
        return damaged(self.filesystem, self.absolute(location), MANIFEST, problem)


def _check_part(
    filesystem: fsspec.AbstractFileSystem, folder: str, table: str, record: PartRecord, data: bytes
) -> pyarrow.parquet.ParquetFile:
    """Return the part, opened, to be read without Arrow's threads.

    One of those may let go of the last reference to `data` while the interpreter shuts down, which ends the process
    with "terminate called without an active exception": 1 of 480 programs that read a part as their last act.
    """
    try:
        found = pyarrow.parquet.ParquetFile(pa.BufferReader(data))
        problems = schemas.differences(found.schema_arrow, schemas.TABLES[table])
        if found.metadata.num_rows != record.rows:
            problems.append(f"{found.metadata.num_rows:,} rows instead of {record.rows:,}")
    except pa.ArrowInvalid as error:
        problems = [str(error)]
    if problems:
        problem = f"it is not the part of table {table} that the manifest describes: {'; '.join(problems)}"
        raise damaged(filesystem, folder, record.path, problem)
    return found


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return ": ".join([*map(str, first["loc"]), first["msg"]])
