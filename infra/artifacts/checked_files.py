"""Opening a root, and reading files whose size and hash a manifest records."""

from __future__ import annotations

import hashlib
import posixpath

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.artifacts.manifest import FileRecord
from infra.errors import DamagedArtifactError, UserError
from infra.uris import refuse_secrets


def open_root(root: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the filesystem of a root and the root's path on it.

    Raises:
        UserError: no filesystem is known for the URI's scheme, its package is not installed, or the URI contains
            a secret, or a character that fsspec treats as a wildcard.
    """
    refuse_secrets(root)
    try:
        filesystem, path = fsspec.core.url_to_fs(root)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"YIWEN_HOME={root!r} cannot be opened: {error}. Use a local path, or install the fsspec package "
            "for that scheme (s3fs, gcsfs, …)."
        ) from error
    # fsspec deletes by pattern too: removing s3://bucket/a* would also remove s3://bucket/ab.
    if set("*?[") & set(path) and not isinstance(filesystem, LocalFileSystem):
        raise UserError(f"YIWEN_HOME={root!r}: a URI must not contain * ? or [ here. Choose another folder.")
    return filesystem, path.rstrip("/") or "/"


def read_checked(filesystem: fsspec.AbstractFileSystem, folder: str, record: FileRecord) -> bytes:
    """Return the bytes of a recorded file below an artifact's folder.

    Raises:
        DamagedArtifactError: the file is missing, or its size or hash differs from the record.
    """
    try:
        data = filesystem.cat_file(posixpath.join(folder, record.path))
    except (FileNotFoundError, NotADirectoryError):
        raise damaged(filesystem, folder, record.path, "the file is missing") from None
    if len(data) != record.bytes:
        problem = f"it has {len(data):,} bytes instead of the {record.bytes:,} in the manifest"
        raise damaged(filesystem, folder, record.path, problem)
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise damaged(filesystem, folder, record.path, "its SHA-256 differs from the one in the manifest")
    return data


def shown(filesystem: fsspec.AbstractFileSystem, path: str) -> str:
    """Return a path as the user would write it: with its scheme unless it is local."""
    return path if isinstance(filesystem, LocalFileSystem) else filesystem.unstrip_protocol(path)


def damaged(filesystem: fsspec.AbstractFileSystem, folder: str, file: str, problem: str) -> DamagedArtifactError:
    """Return the error for a damaged file of an artifact, with the remedy."""
    return DamagedArtifactError(
        f"Damaged artifact: {shown(filesystem, posixpath.join(folder, file))}: {problem}. "
        f"Delete {shown(filesystem, folder)} and run again; the stage is then recomputed."
    )
