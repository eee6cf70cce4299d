"""The manifest of an artifact, and the fingerprint that is its address."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.errors import UserError

MANIFEST = "manifest.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRecord(_Record):
    """One file of an artifact: its path below the artifact, its size in bytes and its SHA-256."""

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
    """One input of an artifact: another artifact, or raw files identified by their content."""

    stage: str
    fingerprint: str
    origin: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Where it came from, if that has a name that its content does not tell, such as a hub's model and revision."""
    bytes: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Its size, by which the cost of later runs is estimated; None where it is unknown."""


class Manifest(_Record):
    """What an artifact is, where it came from and what it cost: the content of `manifest.json`."""

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
    """Parts that an earlier, killed run had finished; `wall_seconds` does not include their time."""
    taken_over_parts: int = 0
    """Units whose parts were reused from an earlier artifact that had done the same work."""

    @property
    def bytes(self) -> int:
        """Size of the artifact's tables and files."""
        return sum(table.bytes for table in self.tables.values()) + sum(file.bytes for file in self.files)

    def address(self) -> str:
        """Return the fingerprint that the recorded work should have."""
        inputs = {name: given.fingerprint for name, given in self.inputs.items()}
        return fingerprint_of(self.stage, self.stage_version, self.params, inputs)


def fingerprint_of(stage: str, version: int, params: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the address of a piece of work: 32 hex digits over stage, version, parameters and input fingerprints.

    Key order and spacing do not matter: parameters and inputs are hashed as canonical JSON.

    Raises:
        UserError: a parameter has no canonical JSON: NaN, infinity, a lone surrogate.
    """
    work = {"stage": stage, "version": version, "params": params, "inputs": inputs}
    try:
        text = json.dumps(work, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]
    except ValueError as error:
        raise UserError(
            f"The parameters of stage {stage} cannot be stored as JSON ({error}): {dict(params)}. "
            "Use finite numbers and valid Unicode text."
        ) from error
