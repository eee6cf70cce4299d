"""The files of an artifact in a local folder, for processes that map them into memory.

On a local root this is the artifact's own folder. From any other root the files are fetched once per machine, into the
folder for temporary files, below the artifact's address: <temporary>/yiwen-UID/<stage>/<fingerprint>. All processes of
a user share it, and what clears temporary files clears it too. TMPDIR chooses the disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import posixpath
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from infra.artifacts.checked_files import damaged, open_root
from infra.artifacts.manifest import FileRecord
from infra.artifacts.store import Artifact
from infra.errors import DamagedArtifactError, StorageFullError, UserError

COPIED = "copied"
"""File beside a copy, written last: without it a copy is not whole."""


def local_folder(artifact: Artifact) -> Path:
    """Return a local folder with the files beside the artifact's tables, each checked against its size and hash.

    The last two steps of the path are the artifact's stage and fingerprint. Time grows with the bytes, which are read
    once even where there is nothing to fetch; memory does not.

    Raises:
        DamagedArtifactError: a file is missing or was changed.
        StorageFullError: a copy does not fit on the disk.
        UserError: the folder for copies belongs to another user.
    """
    if isinstance(artifact.path, Path):
        _check(artifact, artifact.path, artifact.manifest.files)
        return artifact.path
    folder = _cache() / artifact.stage / artifact.fingerprint
    folder.parent.mkdir(parents=True, exist_ok=True)
    # One process fetches, the others of the machine wait for it.
    with _locked(folder.parent / f"{artifact.fingerprint}.lock"):
        if not _is_whole(artifact, folder):
            _fetch(artifact, folder)
    return folder


def _cache() -> Path:
    folder = Path(tempfile.gettempdir(), f"yiwen-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # Where all users write to one folder, another may have made ours to see or to change what is in it.
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise UserError(f"{folder} belongs to another user. Delete it, or set TMPDIR to a folder of your own.")
    return folder


def _fetch(artifact: Artifact, folder: Path) -> None:
    filesystem, root = open_root(artifact.store_root)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        for record in artifact.manifest.files:
            target = unfinished / record.path
            target.parent.mkdir(parents=True, exist_ok=True)
            source = posixpath.join(root, artifact.location, record.path)
            try:
                filesystem.get_file(source, str(target))
            except FileNotFoundError:
                raise _damage(artifact, record, "the file is missing") from None
        _check(artifact, unfinished, artifact.manifest.files)
        (unfinished / COPIED).touch()
        os.rename(unfinished, folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise
        needed = sum(record.bytes for record in artifact.manifest.files)
        raise StorageFullError(
            f"{artifact.path} could not be copied to {folder} ({error}). It has {needed:,} bytes, and "
            f"{shutil.disk_usage(folder.parent).free:,} are free. Free some space, or set TMPDIR to another disk."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_whole(artifact: Artifact, folder: Path) -> bool:
    sizes = {record.path: record.bytes for record in artifact.manifest.files}
    with contextlib.suppress(OSError):
        return (folder / COPIED).is_file() and all((folder / path).stat().st_size == sizes[path] for path in sizes)
    return False


def _check(artifact: Artifact, folder: Path, records: list[FileRecord]) -> None:
    for record in records:
        try:
            with (folder / record.path).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise _damage(artifact, record, "the file is missing") from None
        if digest != record.sha256:
            raise _damage(artifact, record, "its SHA-256 differs from the one in the manifest")


def _damage(artifact: Artifact, record: FileRecord, problem: str) -> DamagedArtifactError:
    filesystem, root = open_root(artifact.store_root)
    return damaged(filesystem, posixpath.join(root, artifact.location), record.path, problem)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
