"""One build: resuming it, filling it, and turning it into the artifact."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import posixpath
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

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
    make_folder,
    read_checked,
)
from infra.builds.disk_errors import explained
from infra.builds.lock import locked
from infra.builds.parts import WorkRecord, put_record
from infra.builds.place import BuildPlace, content_path, link, part_path, publish, put, remove, staging, sync
from infra.errors import DamagedArtifactError, UserError
from infra.memo import UNITS, UnitRecord, units_json
from infra.usage import Usage

logger = logging.getLogger(__name__)

PREPARED = 1_000_000
"""Number of the first unit that writes no table (`infra.stage.Output.prepare`); others are numbered from 0."""


@dataclass
class ArtifactBuild:
    """A build in progress, made by `open_build`; `commit` turns it into the artifact."""

    place: BuildPlace
    store: ArtifactStore
    finished: Mapping[int, WorkRecord]
    """Units that an earlier, killed run finished, by number; a stage keeps those that it asks for again."""
    records: dict[int, WorkRecord] = field(default_factory=dict)
    """Units that make up the artifact; whatever else an earlier run left is dropped."""
    counters: Counter[str] = field(default_factory=Counter)
    _files: dict[str, FileRecord] = field(default_factory=dict)

    @property
    def scratch(self) -> str:
        """Folder or URI for state that survives a killed run; deleted once the artifact is committed."""
        path = self.store.absolute(posixpath.join(self.place.partial, "scratch"))
        with explained(path):
            make_folder(self.store.filesystem, path)
        return path if self.store.is_local else self.store.filesystem.unstrip_protocol(path)

    def add_file(self, name: str, source: Path) -> None:
        """Copy a finished local file into the artifact, beside the tables; `name` may contain slashes.

        Raises:
            ValueError: the name is `manifest.json`, absolute, or has empty, `.` or `..` steps.
        """
        if name == MANIFEST or posixpath.isabs(name) or {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"stage {self.place.stage}: {name!r} cannot be the name of a file in an artifact")
        with staging(self.store, self.place) as folder:
            with explained(str(folder)):
                staged = Path(shutil.copyfile(source, folder / "file"))
            size, digest = publish(self.store, staged, content_path(self.store, self.place, name))
        self._files[name] = FileRecord(path=name, bytes=size, sha256=digest)

    def add_folder(self, folder: Path) -> None:
        """Copy every file below a local folder into the artifact, under its relative name."""
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.add_file(file.relative_to(folder).as_posix(), file)

    def reuse(self, index: int, source: Artifact, unit: UnitRecord) -> WorkRecord | None:
        """Link the parts of an earlier artifact's unit into this build, as unit `index`; None if any is damaged."""
        folder = self.store.absolute(source.location)
        parts: dict[str, list[PartRecord]] = {}
        try:
            for table, records in unit.parts.items():
                parts[table] = []
                for number, record in enumerate(records):
                    read_checked(self.store.filesystem, folder, record)
                    moved = record.model_copy(update={"path": part_path(table, index, number)})
                    target = content_path(self.store, self.place, moved.path)
                    link(self.store, posixpath.join(folder, record.path), target)
                    parts[table].append(moved)
        except DamagedArtifactError as error:
            logger.warning("%s That part is recomputed.", error)
            return None
        reused = WorkRecord(
            index=index, parts=parts, counters=unit.counters, cpu_seconds=0, peak_memory_bytes=0, key=unit.key
        )
        put_record(self.store, self.place, reused)
        return reused

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
            created_at=self._time_after_others().isoformat(timespec="microseconds"),
            wall_seconds=round(wall_seconds, 3),
            cpu_seconds=round(usage.cpu_seconds + sum(r.cpu_seconds for r in self.records.values()), 3),
            peak_memory_bytes=max([usage.peak_memory_bytes] + [r.peak_memory_bytes for r in self.records.values()]),
            resumed_parts=resumed_parts,
            taken_over_parts=taken_over_parts,
        )
        self._publish(manifest)
        return Artifact(self.store.root, self.place.final, manifest)

    def _time_after_others(self) -> datetime:
        """Return the time, or one after the stage's last artifact if the clock has been set back since."""
        now = datetime.now(UTC)
        last = None
        with contextlib.suppress(DamagedArtifactError):  # reported by whoever reads that artifact
            last = self.store.latest(self.place.stage)
        made = datetime.fromisoformat(last.manifest.created_at) if last is not None else now
        if made < now or last is None:
            return now
        logger.warning(
            "%s was made at %s, after the clock's time, %s: was the clock set back? What is made now counts as newer.",
            last.path,
            made.isoformat(timespec="seconds"),
            now.isoformat(timespec="seconds"),
        )
        return made + timedelta(microseconds=1)

    def total_counters(self) -> Counter[str]:
        """Return the build's counters plus those of its finished units."""
        total: Counter[str] = Counter(self.counters)
        for record in self.records.values():
            total.update(record.counters)
        return total

    def _write_units(self) -> None:
        """Write `units.json`, by which later builds of the stage find the units that they may reuse."""
        units = [
            UnitRecord(key=record.key, parts=record.parts, counters=record.counters)
            for _, record in sorted(self.records.items())
            if record.key and record.index < PREPARED
        ]
        if units:
            data = units_json(units)
            put(self.store, self.place, data, content_path(self.store, self.place, UNITS))
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
        put(self.store, self.place, text, content_path(self.store, self.place, MANIFEST))
        if self.store.is_local:
            self._move_to_final()
        remove(self.store, self.place.partial)

    def _move_to_final(self) -> None:
        final = self.store.absolute(self.place.final)
        if os.path.exists(posixpath.join(final, MANIFEST)):
            # The lock should have prevented this, but some network disks accept locks and ignore them.
            logger.warning("another run has finished %s meanwhile: this disk does not keep locks", final)
            return
        with explained(final):
            shutil.rmtree(final, ignore_errors=True)  # a folder without a manifest, which nobody finished
            os.rename(self.store.absolute(content_path(self.store, self.place, "")), final)
            sync(posixpath.dirname(final))

    def _drop_strays(self, manifest: Manifest) -> None:
        """Delete files in content/ that a killed run left and that are not in the manifest."""
        parts = [part.path for table in manifest.tables.values() for part in table.parts]
        listed = {*parts, *(file.path for file in manifest.files)}
        content = Path(self.store.absolute(content_path(self.store, self.place, "")))
        for file in content.rglob("*"):
            if file.is_file() and file.relative_to(content).as_posix() not in listed:
                file.unlink()


@contextlib.contextmanager
def open_build(store: ArtifactStore, stage: str, fingerprint: str) -> Iterator[ArtifactBuild | None]:
    """Start or resume a build; yields None if another run finished the artifact while we waited for the lock."""
    place = BuildPlace(store.root, stage, fingerprint)
    with locked(store, place):
        if store.get(stage, fingerprint) is not None:
            remove(store, place.partial)
            yield None
            return
        remove(store, posixpath.join(place.partial, "staging"))
        yield ArtifactBuild(place, store, finished=_trusted_records(store, place))


def sweep(store: ArtifactStore, stage: str, fingerprint: str) -> None:
    """Delete the leftovers of a builder that was killed after its commit and before it had cleaned up."""
    place = BuildPlace(store.root, stage, fingerprint)
    if store.filesystem.exists(store.absolute(place.partial)):
        with contextlib.suppress(UserError), locked(store, place):  # a read-only root stays as it is
            remove(store, place.partial)


def _trusted_records(store: ArtifactStore, place: BuildPlace) -> dict[int, WorkRecord]:
    """Return the records of an earlier, killed build whose parts are all there, byte for byte."""
    content = store.absolute(content_path(store, place, ""))
    trusted = {}
    for path in _record_files(store, place):
        try:
            record = WorkRecord.model_validate_json(store.filesystem.cat_file(path))
            for part in itertools.chain.from_iterable(record.parts.values()):
                read_checked(store.filesystem, content, part)
        except (ValidationError, DamagedArtifactError, FileNotFoundError):
            logger.warning("%s or a file that it lists is damaged; that part is recomputed", path)
            continue
        trusted[record.index] = record
    return trusted


def _record_files(store: ArtifactStore, place: BuildPlace) -> list[str]:
    store.filesystem.invalidate_cache()
    try:
        paths = store.filesystem.ls(store.absolute(posixpath.join(place.partial, "records")), detail=False)
    except FileNotFoundError:
        return []
    return sorted(path for path in paths if path.endswith(".json"))
