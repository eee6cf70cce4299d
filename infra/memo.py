"""Parts that an earlier artifact of the same stage made from the same work, so that a refresh does only what is new.

A unit of work is known by a key: a hash over the stage, its version and parameters, the function and the values it
is given (a part by its content). A finished artifact keeps the keys of its units in `units.json`. When the stage is
asked for another artifact, as after new files have come into a corpus, the parts of units with the same key are
linked into it (copied on another disk or an object store) after their hashes were checked.

This changes no result: a unit of the same key would write the same parts. Time grows with the bytes that are taken
over (reading and hashing them), memory with one part and the keys of `LOOKED_AT` artifacts.

Where a unit is nearly that of an earlier artifact, as a part that lost a document, a stage may look into that artifact
itself (`Output.earlier`) and take rows from it which it would make again.
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
from infra.errors import DamagedArtifactError, UserError

logger = logging.getLogger(__name__)

UNITS = "units.json"

LOOKED_AT = 4
"""Of so many artifacts of the stage, the youngest, units are taken over."""


class UnitRecord(BaseModel):
    """What one unit of work left in a finished artifact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    parts: dict[str, list[PartRecord]]
    counters: dict[str, int]


_RECORDS = TypeAdapter(list[UnitRecord])


class NotPlainError(Exception):
    """A value does not say what it is (a path only says where it lies): work on it cannot be recognised."""


class WorkKeys:
    """Names the units of one `map`: the function and what all units are given, then each unit's own item."""

    def __init__(
        self, stage: str, version: int, params: BaseModel, function: Callable[..., None], shared: Sequence[Any]
    ) -> None:
        named = (stage, version, params, function.__qualname__, tuple(shared))
        # A function within a function may know more than it is given.
        self._shared = "" if "<locals>" in function.__qualname__ else _digest(named)

    def of(self, item: Any) -> str:
        """64 hex digits that equal work shares; empty where something does not name itself by its content."""
        return _digest((self._shared, item)) if self._shared else ""


def _digest(value: Any) -> str:
    try:
        text = json.dumps(_plain(value), separators=(",", ":"))
    except NotPlainError:
        return ""
    return _hash(text.encode())


def _plain(value: Any) -> Any:
    """A value as JSON in which different values differ."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) < 200 else ["str", _hash(value.encode("utf-8", "surrogatepass"))]
    if isinstance(value, bytes):
        return ["bytes", _hash(value)]
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
    """The units of a stage's youngest artifacts, read when first asked for."""

    def __init__(self, store: ArtifactStore, stage: str) -> None:
        self._store = store
        self._stage = stage
        self._units: dict[str, tuple[Artifact, UnitRecord]] | None = None

    def find(self, key: str) -> tuple[Artifact, UnitRecord] | None:
        """The unit of a key and the artifact that holds it, or None."""
        if not key:
            return None
        if self._units is None:
            self._units = self._read()
        return self._units.get(key)

    def youngest(self, version: int, params: Mapping[str, Any], inputs: Mapping[str, str | None]) -> Artifact | None:
        """The youngest artifact of a version and parameters that had just these inputs; None stands for any value."""
        for artifact in self._youngest:
            manifest = artifact.manifest
            had = {name: given.fingerprint for name, given in manifest.inputs.items()}
            fits = had.keys() == inputs.keys() and all(value in (None, had[name]) for name, value in inputs.items())
            if fits and (manifest.stage_version, manifest.params) == (version, params):
                return artifact
        return None

    @cached_property
    def _youngest(self) -> Sequence[Artifact]:
        try:
            artifacts = [artifact for artifact in self._store.list(self._stage) if _has_units(artifact)]
        except DamagedArtifactError as error:
            logger.warning("%s: nothing is taken over from earlier artifacts: %s", self._stage, error)
            return []
        return heapq.nlargest(LOOKED_AT, artifacts, key=lambda a: (a.manifest.created_at, a.fingerprint))

    def _read(self) -> dict[str, tuple[Artifact, UnitRecord]]:
        found: dict[str, tuple[Artifact, UnitRecord]] = {}
        for artifact in self._youngest:
            try:
                records = _RECORDS.validate_json(artifact.read_file(UNITS))
            except (DamagedArtifactError, UserError, ValidationError) as error:
                logger.warning("%s: no parts are taken over from %s: %s", self._stage, artifact.path, error)
                continue
            for record in records:
                found.setdefault(record.key, (artifact, record))
        return found


def _has_units(artifact: Artifact) -> bool:
    return any(file.path == UNITS for file in artifact.manifest.files)


def units_json(records: Sequence[UnitRecord]) -> bytes:
    """The content of `units.json`."""
    return _RECORDS.dump_json(list(records))
