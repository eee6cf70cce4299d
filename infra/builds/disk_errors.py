"""Full disks and forbidden folders as errors that the user can fix."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator

import fsspec
from fsspec.implementations.local import LocalFileSystem

from infra.artifacts import make_folder
from infra.errors import StorageFullError, UserError

_FULL = {
    errno.ENOSPC: "Free some space there or point YIWEN_HOME (for a remote root: TMPDIR) at another disk",
    errno.EDQUOT: "Free some of your quota or point YIWEN_HOME at another disk",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f)",
}
"""Errors of a disk without room, each with its remedy."""

# EEXIST and ENOTDIR: a file is where the root, or a folder above it, should be.
_UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@contextlib.contextmanager
def explained(target: str) -> Iterator[None]:
    """Turn "no space left" and "permission denied" while `target` is written into errors that name the remedy.

    Raises:
        StorageFullError: the disk or the quota is full, or the file exceeds the limit on file sizes.
        UserError: this user may not write there. Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or target
        if error.errno in _FULL:
            raise StorageFullError(
                f"No space left while writing {where} ({os.strerror(error.errno)}). {_FULL[error.errno]}, "
                "then run again: finished parts are kept and reused."
            ) from error
        if error.errno in _UNUSABLE:
            raise UserError(
                f"{where} cannot be written ({os.strerror(error.errno)}). Point YIWEN_HOME at a folder that "
                "this user may write to."
            ) from error
        raise


@contextlib.contextmanager
def temporary_files_explained() -> Iterator[None]:
    """Turn the lack of any folder for temporary files into an error that names the remedy, a `UserError`."""
    try:
        yield
    except FileNotFoundError as error:
        if "temporary directory" not in str(error):  # tempfile.gettempdir has no error of its own
            raise
        raise UserError(
            "No folder for temporary files can be written to (/tmp may be full or read-only). Set TMPDIR to one."
        ) from error


@contextlib.contextmanager
def open_scratch(path: str) -> Iterator[io.BytesIO]:
    """Open a scratch file of a build for writing; its bytes stay in memory until the block ends without an error.

    Its folder is made, but on a local root not those above: a worker that was cut off may outlive its build.

    Raises:
        FileNotFoundError: the build has ended.
        StorageFullError, UserError: as `explained` does.
    """
    # Polars reports a full disk without the error's number, so it writes to memory and we write to the disk.
    memory = io.BytesIO()
    yield memory
    filesystem, place = fsspec.core.url_to_fs(path)
    with explained(path):
        if isinstance(filesystem, LocalFileSystem):
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(place))
        else:
            make_folder(filesystem, os.path.dirname(place))
        with filesystem.open(place, "wb") as file:
            file.write(memory.getbuffer())
