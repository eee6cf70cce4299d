"""Reuse of parts from earlier artifacts of the same stage, so that a refresh computes only what is new.

A unit of work is identified by a key: a hash over the stage, its version and parameters, the function and its arguments
(a part by its content). A finished artifact keeps the keys of its units in `units.json`. When the stage makes another
artifact, for instance after new files were added to a corpus, the parts of units with the same key are linked into it
after a check of their hashes (copied to another disk, and on object stores).

The result does not change, because a unit with the same key would write the same parts. Time grows with the bytes
reused (reading and hashing them), memory with one part and the keys of `LOOKED_AT` artifacts.

If a unit is only nearly that of an earlier artifact (a part that lost one document), a stage may read that artifact
itself (`Output.earlier`) and reuse some of its rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from infra.artifacts import Artifact, ArtifactStore, Part, PartRecord
from infra.disk.packed import StoredBytes
from infra.errors import DamagedArtifactError, UserError

logger = logging.getLogger(__name__)

UNITS = "units.json"

LOOKED_AT = 4
"""Number of recent artifacts of the stage searched for reusable units."""


class UnitRecord(BaseModel):
    """Parts and counters of one unit of work in a finished artifact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    parts: dict[str, list[PartRecord]]
    counters: dict[str, int]


_RECORDS = TypeAdapter(list[UnitRecord])


class NotPlainError(Exception):
    """A value that does not identify its content, such as a path. Work on it cannot be recognised."""


class WorkKeys:
    """Keys of the units of one `map`, from the function, the arguments shared by all units, and each unit's item."""

    def __init__(
        self, stage: str, version: int, params: BaseModel, function: Callable[..., None], shared: Sequence[Any]
    ) -> None:
        named = (stage, version, params, function.__qualname__, tuple(shared))
        # A nested function may depend on variables around it, which are not among its arguments.
        self._shared = "" if "<locals>" in function.__qualname__ else _digest(named)

    def of(self, item: Any) -> str:
        """Return 64 hex digits, the same for equal work; empty if a value does not identify its content."""
        return _digest((self._shared, item)) if self._shared else ""


def _digest(value: Any) -> str:
    try:
        text = json.dumps(_plain(value), separators=(",", ":"))
    except NotPlainError:
        return ""
    return _hash(text.encode())


def _plain(value: Any) -> Any:
    """Return a value as JSON in which different values differ.

    Raises:
        NotPlainError: the value does not identify its content.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        # A long text, such as a list of names, is shortened to its hash. The tags keep types apart: the text
        # "ab" and the bytes b"ab" are different arguments.
        return value if len(value) < 200 else ["str", _hash(value.encode("utf-8", "surrogatepass"))]
    if isinstance(value, bytes):
        return ["bytes", _hash(value)]
    if isinstance(value, StoredBytes):
        return ["bytes", value.sha256]
    if isinstance(value, Part):
        return ["part", value.table, value.record.sha256]
    if isinstance(value, Artifact):
        return ["artifact", value.stage, value.fingerprint]
    if isinstance(value, BaseModel):
        return [type(value).__qualname__, value.model_dump(mode="json")]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return [type(value).__qualname__, {name: _plain(getattr(value, name)) for name in fields}]
    if isinstance(value, Mapping):
        return ["mapping", sorted(([_plain(name), _plain(each)] for name, each in value.items()), key=json.dumps)]
    if isinstance(value, list | tuple):
        return ["sequence", [_plain(each) for each in value]]
    raise NotPlainError(type(value).__qualname__)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Memo:
    """Units of a stage's most recent artifacts, read on first use."""

    def __init__(self, store: ArtifactStore, stage: str) -> None:
        self._store = store
        self._stage = stage
        self._units: dict[str, tuple[Artifact, UnitRecord]] | None = None

    def find(self, key: str) -> tuple[Artifact, UnitRecord] | None:
        """Return the unit with a key and the artifact that contains it, or None."""
        if not key:
            return None
        if self._units is None:
            self._units = self._read()
        return self._units.get(key)

    def newest(self, version: int, params: Mapping[str, Any], inputs: Mapping[str, str | None]) -> Artifact | None:
        """Return the newest artifact of a version with these parameters and inputs; an input of None matches any."""
        for artifact in self._newest:
            manifest = artifact.manifest
            had = {name: given.fingerprint for name, given in manifest.inputs.items()}
            fits = had.keys() == inputs.keys() and all(value in (None, had[name]) for name, value in inputs.items())
            if fits and (manifest.stage_version, manifest.params) == (version, params):
                return artifact
        return None

    @cached_property
    def _newest(self) -> Sequence[Artifact]:
        try:
            artifacts = [artifact for artifact in self._store.list(self._stage) if _has_units(artifact)]
        except DamagedArtifactError as error:
            logger.warning("%s: no parts of earlier artifacts are reused: %s", self._stage, error)
            return []
        return heapq.nlargest(LOOKED_AT, artifacts, key=lambda a: (a.manifest.created_at, a.fingerprint))

    def _read(self) -> dict[str, tuple[Artifact, UnitRecord]]:
        found: dict[str, tuple[Artifact, UnitRecord]] = {}
        for artifact in self._newest:
            try:
                records = _RECORDS.validate_json(artifact.read_file(UNITS))
            except (DamagedArtifactError, UserError, ValidationError) as error:
                logger.warning("%s: no parts of %s are reused: %s", self._stage, artifact.path, error)
                continue
            for record in records:
                found.setdefault(record.key, (artifact, record))
        return found


def _has_units(artifact: Artifact) -> bool:
    return any(file.path == UNITS for file in artifact.manifest.files)


def units_json(records: Sequence[UnitRecord]) -> bytes:
    """Return the content of `units.json`."""
    return _RECORDS.dump_json(list(records))
