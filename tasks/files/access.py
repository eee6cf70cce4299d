"""Access to files of a corpus, local or behind a URI, and checks that they do not change while they are read.

A run identifies its input by its content, so the bytes read must be the bytes hashed. A file that is read whole is
hashed again on the way. Of a file that is read in parts, the size and the time stamp (or version) kept by its storage
are compared before and after.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from infra.console.printable import one_line
from infra.errors import UserError
from tasks.files.slices import READ_IN_PLACES, Slice

BLOCK = 1 << 16
"""Bytes per read."""

_STAMPS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
"""Keys under which fsspec's filesystems keep a value that changes when a file is written."""


def is_local(path: str) -> bool:
    """Return True for a path on this machine, False for a URI."""
    return "://" not in path


def filesystem_of(uri: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of a URI, and the path on it.

    Raises:
        UserError: the scheme is unknown, or its package is not installed.
    """
    try:
        return fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"{uri} cannot be opened: {error}. Give a local path, or install the fsspec package for this scheme "
            "(s3fs, gcsfs, …)."
        ) from error


def open_file(path: str) -> BinaryIO:
    """Open a file for reading at any position.

    Raises:
        OSError: the file cannot be opened.
    """
    if is_local(path):
        return Path(path).open("rb")
    filesystem, place = filesystem_of(path)
    return filesystem.open(place, "rb")


def size_and_stamp(path: str) -> tuple[int, str]:
    """Return a file's size in bytes and the stamp of its current state, empty if its storage keeps none."""
    if is_local(path):
        state = os.stat(path)
        return state.st_size, str(state.st_mtime_ns)
    filesystem, place = filesystem_of(path)
    filesystem.invalidate_cache()  # a cached listing would hide a change
    found = filesystem.info(place)
    return found["size"] or 0, next((str(found[key]) for key in _STAMPS if found.get(key)), "")


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file in hex digits."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class ChangedFileError(UserError):
    """A file differs from its state at the beginning of the run."""


def changed_file(name: str) -> ChangedFileError:
    """Return the error for a file that changed, with the remedy."""
    return ChangedFileError(
        f"{one_line(name)} was changed or removed while the corpus was being read; nothing read from it was kept. Run "
        "the command again once nothing writes to the corpus: the files are then hashed anew."
    )


class WatchedFile:
    """A file open for reading that can be checked against its plan; made by `watched`."""

    def __init__(self, piece: Slice, file: BinaryIO) -> None:
        self.file = file
        self._piece = piece
        self._digest: Any = None

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a range, block by block."""
        self.file.seek(start)
        whole = start == 0 and end is None
        self._digest = hashlib.sha256() if whole else None
        left = None if end is None else end - start
        while block := self.file.read(BLOCK if left is None else min(BLOCK, left)):
            if self._digest is not None:
                self._digest.update(block)
            if left is not None:
                left -= len(block)
            yield block

    def check(self) -> None:
        """Compare the file as it was read with the file as it was planned.

        Raises:
            ChangedFileError: they differ.
        """
        if self._digest is None:
            _compare(self._piece)
            return
        while block := self.file.read(BLOCK):  # the rest, which a reader that stopped at damage has not read
            self._digest.update(block)
        if self._digest.hexdigest() != self._piece.sha256:
            raise changed_file(self._piece.name)


@contextmanager
def watched(piece: Slice) -> Iterator[WatchedFile]:
    """Open the file of a slice, and check it when the block ends or raises.

    Raises:
        ChangedFileError: the file is gone, or differs from the plan.
    """
    try:
        # A file that is read whole is hashed on the way. Others are read in places, even when all their rows are read.
        whole = piece.start == 0 and piece.end is None and piece.member is None
        if not whole or piece.kind in READ_IN_PLACES:
            _compare(piece)
        file = open_file(piece.path)
    except OSError as error:
        raise changed_file(piece.name) from error
    with file:
        watch = WatchedFile(piece, file)
        try:
            yield watch
        except Exception:
            watch.check()  # if the file changed meanwhile, the error is only a consequence
            raise
        watch.check()


def _compare(piece: Slice) -> None:
    try:
        unchanged = size_and_stamp(piece.path) == (piece.size, piece.stamp)
    except OSError as error:
        raise changed_file(piece.name) from error
    if not unchanged:
        raise changed_file(piece.name)
