"""Where an artifact comes from, down to raw files, and what was made from it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import ValidationError

from infra.artifacts import Artifact, ArtifactStore, InputRecord, Manifest
from infra.builds import DISCARDED
from infra.errors import DamagedArtifactError
from infra.runs import read_runs
from tasks.downstream.catalogue import task
from tasks.downstream.own import read_own_task
from tasks.finetune.inputs import TaskFiles, model_fingerprint

OUTSIDE = {
    "raw": "raw files",
    "model": "a model from elsewhere",
    "task_files": "files of a task",
    "own_files": "your files",
    "vectors": "a file of vectors",
}
"""Inputs that are no artifacts, by the stage that manifests give them."""

OWN_TASK = "own_task"
"""Stage of the records of a user's own files (tasks/own/stage.py)."""


@dataclass
class Ancestor:
    """An artifact, or files from outside, with what it was made from."""

    name: str
    """Name of the input that it is; empty for the root of a tree."""
    record: InputRecord
    manifest: Manifest | None
    """None for files from outside, and for an artifact that is no longer there."""
    is_content_deleted: bool = False
    """Only its manifest was kept."""
    is_damaged: bool = False
    """Its manifest cannot be read."""
    parents: list[Ancestor] = field(default_factory=list)
    called: str = ""
    """What its files are called, where an artifact made from them, or the record of a run, says so: `visits`."""
    seen_before: bool = False
    """It is elsewhere in the tree, with its parents."""

    @property
    def address(self) -> str:
        """`stage/fingerprint`"""
        return posixpath.join(self.record.stage, self.record.fingerprint)

    @property
    def title(self) -> str:
        """`clean 04ecc678`, `raw files 3fd2…`"""
        called = f" {self.called!r}" if self.called else ""
        return f"{OUTSIDE.get(self.record.stage, self.record.stage)}{called} {self.record.fingerprint[:8]}"

    def walk(self) -> Iterator[Ancestor]:
        """Yield this and everything that it comes from, once."""
        if not self.seen_before:
            yield self
            for one in self.parents:
                yield from one.walk()


class Lineage:
    """The lineage of the artifacts of one store."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    def tree(self, artifact: Artifact) -> Ancestor:
        """Return an artifact with everything that it comes from. Time grows with the number of manifests."""
        size = artifact.manifest.bytes
        record = InputRecord(stage=artifact.stage, fingerprint=artifact.fingerprint, bytes=size)
        return self._ancestor("", record, set())

    def _ancestor(self, name: str, record: InputRecord, seen: set[str]) -> Ancestor:
        record = self._artifact_of(record)
        manifest, is_deleted, is_damaged = None, False, False
        try:
            manifest, is_deleted = self._manifest(record)
        except DamagedArtifactError:  # `verify` says more
            is_damaged = True
        node = Ancestor(name, record, manifest, is_deleted, is_damaged)
        if node.address in seen:
            node.seen_before = True
            return node
        seen.add(node.address)
        if manifest is not None:
            node.parents = [self._ancestor(each, one, seen) for each, one in manifest.inputs.items()]
            for one in node.parents:
                one.called = self._called(record) if one.record.stage == "own_files" else self._as_given(one, record)
        return node

    def made_from(self, artifact: Artifact) -> list[Artifact]:
        """Return the artifacts that have an artifact among their inputs, the oldest first."""
        return [
            one
            for one in self._all
            if any(
                (given.stage, given.fingerprint) == (artifact.stage, artifact.fingerprint)
                or self._artifact_of(given) == artifact_record(artifact)
                for given in one.manifest.inputs.values()
            )
        ]

    def _artifact_of(self, given: InputRecord) -> InputRecord:
        """Return the artifact that a model or the files of a task are, or what was given."""
        if given.stage == "model":
            return self.models.get(given.fingerprint, given)
        return self._own_tasks.get(given.fingerprint, given) if given.stage == TaskFiles.stage else given

    def _called(self, record: InputRecord) -> str:
        """Return what the user's files are called that an artifact was made from; "" if that is not known."""
        own = read_own_task(self._store.absolute(posixpath.join(OWN_TASK, record.fingerprint)))
        return "" if own is None else own.title.partition(": ")[0]

    def _as_given(self, files: Ancestor, record: InputRecord) -> str:
        """Return what the last recorded run that used an artifact was given for the raw files it was made from."""
        given = self._given.get((record.stage, record.fingerprint), ()) if files.record.stage == "raw" else ()
        # From Python a text is recorded as JSON, in quotes.
        return ", ".join(one.partition("=")[2].strip('"') for one in given if one.startswith(f"{files.name}="))

    @cached_property
    def _given(self) -> dict[tuple[str, str], list[str]]:
        """Parameters of the last recorded run that used an artifact, by its stage and fingerprint."""
        runs = read_runs(self._store)
        return {(used.stage, used.fingerprint): run.begun.given for run in runs for used in run.stages}

    def _manifest(self, record: InputRecord) -> tuple[Manifest | None, bool]:
        """Return the manifest of an input, and whether it alone was kept."""
        if record.stage in OUTSIDE:
            return None, False
        found = self._store.get(record.stage, record.fingerprint)
        if found is not None:
            return found.manifest, False
        kept = self._store.absolute(posixpath.join(DISCARDED, record.stage, f"{record.fingerprint}.json"))
        try:
            return Manifest.model_validate_json(self._store.filesystem.cat_file(kept)), True
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None, False

    @cached_property
    def _all(self) -> list[Artifact]:
        """All artifacts whose manifests can be read."""
        found = []
        for stage in self._store.stages():
            for fingerprint in self._store.fingerprints(stage):
                try:
                    artifact = self._store.get(stage, fingerprint)
                except DamagedArtifactError:  # `verify` reports it
                    continue
                found += [artifact] if artifact is not None else []
        return sorted(found, key=lambda one: (one.manifest.created_at, one.fingerprint))

    @cached_property
    def models(self) -> dict[str, InputRecord]:
        """Exported models by the fingerprint that their folders have as an input of fine-tuning."""
        found = {}
        for artifact in self._all:
            for folder in _model_folders(artifact.manifest):
                digests = {
                    file.path.removeprefix(folder): file.sha256
                    for file in artifact.manifest.files
                    if file.path.startswith(folder)
                }
                found[model_fingerprint(digests)] = artifact_record(artifact)
        return found

    @cached_property
    def _own_tasks(self) -> dict[str, InputRecord]:
        """Records of users' own files by the fingerprint that their folders have as an input of fine-tuning."""
        found = {}
        for artifact in self._all:
            if artifact.stage == OWN_TASK and (own := read_own_task(artifact.path)) is not None:
                found[TaskFiles(task(own.task), artifact.path).fingerprint] = artifact_record(artifact)
        return found


def artifact_record(artifact: Artifact) -> InputRecord:
    """Return an artifact as manifests name it."""
    return InputRecord(stage=artifact.stage, fingerprint=artifact.fingerprint)


def _model_folders(manifest: Manifest) -> list[str]:
    """Return the folders of an artifact that hold a model in Hugging Face's layout, each with its slash."""
    paths = [file.path for file in manifest.files]
    return [path.removesuffix("config.json") for path in paths if posixpath.basename(path) == "config.json"]
