"""The folders of a build, and the only ways in which files get into them and out again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.artifacts import Artifact, ArtifactStore, make_folder
from infra.artifacts.manifest import MANIFEST
from infra.builds.disk_errors import explained
from infra.disk.private_files import private_files
from infra.errors import UserError


@dataclass(frozen=True)
class BuildPlace:
    """Where a build writes; small and picklable, so that it can travel to workers."""

    store_root: str
    stage: str
    fingerprint: str

    @property
    def final(self) -> str:
        """Location of the artifact below the root."""
        return posixpath.join(self.stage, self.fingerprint)

    @property
    def partial(self) -> str:
        """Location of the unfinished build below the root."""
        return posixpath.join(self.stage, f".{self.fingerprint}.partial")


def content_path(store: ArtifactStore, place: BuildPlace, relative: str) -> str:
    """Return the location below the root of a file of the build, until (or because) it is committed."""
    if store.is_local:
        return posixpath.join(place.partial, "content", relative)
    return posixpath.join(place.final, relative)


def part_path(table: str, index: int, number: int) -> str:
    """Return the path of a part below its artifact: part `number` of unit `index`."""
    return posixpath.join(table, f"part-{index:05d}-{number:03d}.parquet")


@contextlib.contextmanager
def staging(store: ArtifactStore, place: BuildPlace) -> Iterator[Path]:
    """Yield a private local folder that is deleted when the block ends."""
    folder = staging_folder(store, place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def staging_folder(store: ArtifactStore, place: BuildPlace) -> Path:
    """Make a private local folder: on the store's own disk for a local root, so that publishing is a rename."""
    if not store.is_local:
        return Path(tempfile.mkdtemp(prefix="yiwen-"))
    path = store.absolute(posixpath.join(place.partial, "staging", uuid.uuid4().hex))
    with explained(path):
        _make_inside(store.absolute(place.partial), path)
    return Path(path)


def _make_inside(build: str, folder: str) -> None:
    """Make a folder of a build and those above it, but not that of the build itself, which its builder made.

    A worker whose node was cut off may go on when others have finished its work and the build is deleted.

    Raises:
        FileNotFoundError: the build has ended.
    """
    here = build
    for step in posixpath.relpath(folder, build).split("/"):
        here = posixpath.join(here, step)
        with contextlib.suppress(FileExistsError):
            os.mkdir(here)


def put(store: ArtifactStore, place: BuildPlace, data: bytes, location: str) -> None:
    """Write a small file atomically."""
    with staging(store, place) as folder:
        file = folder / "small"
        with explained(store.absolute(location)):
            file.write_bytes(data)
        publish(store, file, location)


def publish(store: ArtifactStore, staged: Path, location: str) -> tuple[int, str]:
    """Move a staged file to its location below a build's folder; returns its size in bytes and its SHA-256."""
    target = store.absolute(location)
    with explained(target):
        size, digest = measure(staged)
        if store.is_local:
            sync(staged)
            build = store.absolute("/".join(location.split("/")[:2]))
            _make_inside(build, posixpath.dirname(target))
            os.replace(staged, target)
        else:
            make_folder(store.filesystem, posixpath.dirname(target))
            store.filesystem.put_file(str(staged), target)
    return size, digest


def link(store: ArtifactStore, source: str, location: str) -> None:
    """Put a finished file of another artifact into this build: as a hard link where the disk has them, else a copy."""
    target = store.absolute(location)
    with explained(target):
        make_folder(store.filesystem, posixpath.dirname(target))
        if not store.is_local:
            store.filesystem.cp_file(source, target)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)  # left by a build that was killed before its record was written
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
            sync(target)


def remove(store: ArtifactStore, location: str) -> None:
    """Delete a folder of the build; what another builder adds meanwhile is left for that builder to delete."""
    path = store.absolute(location)
    if store.is_local:
        shutil.rmtree(path, ignore_errors=True)
        return
    store.filesystem.invalidate_cache()
    with contextlib.suppress(OSError):
        store.filesystem.rm(path, recursive=True)


DISCARDED = ".discarded"
"""Folder below a store's root that holds the manifests of artifacts whose content was deleted."""


@private_files()
def discard(store: ArtifactStore, artifact: Artifact) -> None:
    """Delete the content of a finished artifact, and keep its manifest in `.discarded/<stage>/<fingerprint>.json`.

    To the store the artifact is gone: a run that needs it makes it again, at the same address. The lineage of what was
    made from it still resolves, by the manifest kept. A killed call leaves the artifact whole, or as an unfinished one.

    Raises:
        UserError: some of it cannot be deleted; the message names the folder that is left.
    """
    manifest = posixpath.join(store.absolute(artifact.location), MANIFEST)
    kept = store.absolute(posixpath.join(DISCARDED, artifact.stage, f"{artifact.fingerprint}.json"))
    with explained(kept):
        make_folder(store.filesystem, posixpath.dirname(kept))
        store.filesystem.pipe_file(kept, store.filesystem.cat_file(manifest))
    with explained(manifest):
        store.filesystem.rm_file(manifest)
    remove(store, artifact.location)
    left = store.absolute(artifact.location)
    store.filesystem.invalidate_cache()
    if store.filesystem.exists(left):
        raise UserError(
            f"{left} cannot be deleted whole: a file in it is protected or in use. Delete the folder by hand."
        )


def measure(path: Path) -> tuple[int, str]:
    """Return a local file's size in bytes and its SHA-256."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def sync(path: str | Path) -> None:
    """Wait until a file or folder is on the disk, so that a power cut cannot undo what is renamed after it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
