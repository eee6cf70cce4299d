"""Units of work: writing the parts of one unit, and the record that says it is finished."""

from __future__ import annotations

import contextlib
import posixpath
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pydantic import BaseModel, ConfigDict

from infra import schemas
from infra.artifacts import ArtifactStore, PartRecord, store_explained
from infra.builds.disk_errors import explained
from infra.builds.place import BuildPlace, content_path, part_path, publish, put, staging_folder
from infra.console.json_log import logged_as
from infra.disk.private_files import private_files
from infra.usage import Usage, measure_usage

MAX_EXCERPT = 200
"""Characters of a rejected text that are kept for a person to read."""

PART_BYTES = 64 * 2**20
"""Size in memory at which a part is full."""

REJECTS_AT_ONCE = 10_000

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 64 * 2**20
"""A row group is written when it has this many rows or bytes, however few rows a stage writes at once."""


class WorkRecord(BaseModel):
    """Result of one finished unit of work: its parts by table, its counters and its cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: int
    parts: dict[str, list[PartRecord]]
    counters: dict[str, int]
    cpu_seconds: float
    peak_memory_bytes: int
    key: str = ""
    """Identifies the work (`infra.memo.WorkKeys`); empty where it cannot be identified."""


@dataclass(frozen=True)
class Unit:
    """One unit of work: its number, the arguments of its function, and its key as in `WorkRecord`."""

    index: int
    arguments: tuple[Any, ...]
    key: str = ""


@private_files()
def run_unit(place: BuildPlace, function: Callable[..., None], unit: Unit) -> WorkRecord:
    """Do one unit of work: call `function(part, *arguments)`, then commit what it wrote."""
    part = PartWriter(place, unit.index)
    try:
        # Here, in the process that met it: errors of drivers need not survive the way to another one.
        with store_explained(place.store_root):
            with logged_as(stage=place.stage, part=unit.index), measure_usage() as usage:
                function(part, *unit.arguments)
                part.finish()
            return part.commit(usage, unit.key)
    finally:
        part.discard()


class PartWriter:
    """Writes one unit of work: its parts of each table, and counters; `finish` and `commit` end it.

    A part that reaches `PART_BYTES` is closed and the table continues in another, so that whoever reads whole parts
    needs bounded memory. Memory here is bounded by what the caller passes to `write` at once and one Parquet row group
    per table.
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
            ValueError: a column is missing or unknown, or a value does not fit its column (a defect of the stage).
        """
        try:
            rows = schemas.conform(rows, table)
        except (ValueError, pa.ArrowException) as error:
            raise ValueError(f"stage {self._place.stage}, part {self.index}, table {table}: {error}") from error
        with explained(self._store.absolute(content_path(self._store, self._place, table))):
            if table not in self._writers:
                self._writers[table] = _TableWriter(table, staging_folder(self._store, self._place))
            self._writers[table].write(rows)
        if self._writers[table].bytes > PART_BYTES:
            self._finish_part(table)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the manifest."""
        self.counters[name] += amount

    def reject(self, *, doc_id: str, source: str, reason: str, detail: str, text: str) -> None:
        """Record a dropped row with its reason, in the table `rejects` and in the counter `rejected_REASON`."""
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
        """Move the finished files into the build. Separate from `commit` because its cost belongs to the unit."""
        self._flush_rejects()
        for table in list(self._writers):
            self._finish_part(table)

    def commit(self, usage: Usage, key: str = "") -> WorkRecord:
        """Write the record of the files of `finish`: from then on a later run reuses them."""
        record = WorkRecord(
            index=self.index,
            parts=self._parts,
            counters=dict(self.counters),
            cpu_seconds=usage.cpu_seconds,
            peak_memory_bytes=usage.peak_memory_bytes,
            key=key,
        )
        put_record(self._store, self._place, record)
        return record

    def discard(self) -> None:
        """Delete the files that are not finished."""
        for writer in self._writers.values():
            writer.discard()

    def _flush_rejects(self) -> None:
        rows, self._rejects = self._rejects, []
        if rows:
            self.write("rejects", rows)

    def _finish_part(self, table: str) -> None:
        writer = self._writers[table]
        parts = self._parts.setdefault(table, [])
        relative = part_path(table, self.index, len(parts))
        location = content_path(self._store, self._place, relative)
        with explained(self._store.absolute(location)):
            file, rows = writer.close()
        size, digest = publish(self._store, file, location)
        writer.discard()
        del self._writers[table]
        parts.append(PartRecord(path=relative, bytes=size, sha256=digest, rows=rows))


def put_record(store: ArtifactStore, place: BuildPlace, record: WorkRecord) -> None:
    """Write the record of a finished unit."""
    location = posixpath.join(place.partial, "records", f"{record.index:05d}.json")
    put(store, place, record.model_dump_json().encode(), location)


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
        # Close it here, where errors are caught: left open, it would be closed by the garbage collector.
        with contextlib.suppress(OSError):
            self._writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _flush(self) -> None:
        rows, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        if rows:
            self._writer.write_table(pa.concat_tables(rows).combine_chunks())
