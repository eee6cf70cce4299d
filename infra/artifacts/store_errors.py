"""Failures of an object store as errors that the user can fix: it refuses, does not answer, or has no such bucket.

On a local root nothing is explained here: `infra.builds.explained` knows the errors of disks. The drivers of object
stores raise what their vendors' packages raise; errors that are about the store have no number, or one of a few.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import posixpath
from collections.abc import Iterator
from typing import Any

import fsspec

from infra.errors import StoreLostError, UserError

OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "obs", "cos", "r2"})
"""fsspec's names of stores that know no folders, only objects whose names contain slashes."""

_BUSY = frozenset({errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO), errno.EIO})
"""Numbers that s3fs gives to answers of 503, 500, and any other that it does not know."""

_SILENT = frozenset({"ConnectionError", "HTTPClientError", "ClientConnectionError", "ServerTimeoutError"})
_NOBODY = frozenset({"NoCredentialsError", "CredentialRetrievalError", "TokenRetrievalError", "SSOError"})
"""Classes of the drivers' packages, which need not be installed: no connection, and nobody to be."""
_DRIVERS = ("botocore.", "aiobotocore.", "aiohttp.", "gcsfs.", "adlfs.", "azure.")


def make_folder(filesystem: fsspec.AbstractFileSystem, folder: str) -> None:
    """Make a folder where the filesystem has folders.

    An object store would make a bucket where none of the name exists, for instance because it was misspelt.
    """
    names = filesystem.protocol if isinstance(filesystem.protocol, tuple) else (filesystem.protocol,)
    if OBJECT_STORES.isdisjoint(names):
        filesystem.makedirs(folder, exist_ok=True)


def open_for_writing(path: str) -> Any:
    """Return a file at a path or URI, opened for writing bytes; its folder is made where there are folders."""
    filesystem, place = fsspec.core.url_to_fs(path)
    make_folder(filesystem, posixpath.dirname(place))
    return filesystem.open(place, "wb")


@contextlib.contextmanager
def store_explained(root: str) -> Iterator[None]:
    """Turn what an object store refuses or does not answer into errors that name the remedy.

    Raises:
        StoreLostError, UserError: as `store_error` returns them. Other errors pass unchanged.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        explained = store_error(root, error)
        if explained is None:
            raise
        raise explained from error


def store_error(root: str, error: Exception) -> UserError | None:
    """Return the error for users where another one is about the object store at `root`; None where it is not.

    A `StoreLostError`: the store does not answer, or only with failures, and the same work may succeed later. A
    `UserError`: it accepts no credentials of ours, forbids what we do, or has no such bucket.
    """
    scheme, found, path = root.partition("://")
    if not found or scheme == "file":
        return None
    bucket = f"{scheme}://{path.split('/')[0]}"
    said = _said(error)
    if (isinstance(error, PermissionError) and error.errno is None) or _is(error, _NOBODY):
        return UserError(
            f"{bucket} refuses what we ask: {said}. Check that the credentials in the environment have not expired "
            "and may read, write, list and delete there, and that the clock is right; then run the same command "
            "again. Finished parts and checkpoints are kept."
        )
    if isinstance(error, FileNotFoundError) and error.errno is None and "bucket" in said.lower():
        return UserError(f"{bucket} does not exist: {said}. Correct YIWEN_HOME={root}, or make the bucket.")
    silent = isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError) or _is(error, _SILENT)
    if silent or (isinstance(error, OSError) and error.errno in _BUSY and error.filename is None):
        return StoreLostError(
            f"{bucket} does not answer, or only with failures: {said}. Run the same command again when it does: "
            "finished parts and checkpoints are kept."
        )
    return None


def _is(error: BaseException, names: frozenset[str]) -> bool:
    """Return whether an error is of one of these classes of a driver's package, which need not be installed."""
    kinds = type(error).__mro__
    return any(kind.__name__ in names and f"{kind.__module__}.".startswith(_DRIVERS) for kind in kinds)


def _said(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
