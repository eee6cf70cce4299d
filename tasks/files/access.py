"""Files of a corpus, local or behind a URI: listed, opened, and watched for change.

A run names its input by its content, so what is read must be what was hashed. Where a file is read whole, its
hash is taken again on the way; where only places of it are read, its size and the time stamp (or version) that its
storage keeps are compared before and after.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from infra.errors import UserError
from tasks.files.slices import Slice

BLOCK = 1 << 16
"""Bytes read at once."""

_STAMPS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
"""Where the filesystems of fsspec keep what changes when a file is written."""


def is_local(path: str) -> bool:
    """Whether a path is one of this machine, and no URI."""
    return "://" not in path


def filesystem_of(uri: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URI, and the path on it.

    Raises:
        UserError: no filesystem is known for its scheme, or its package is not installed.
    """
    try:
        return fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"{uri} cannot be opened: {error}. Give a local path, or install the fsspec package for that scheme "
            "(s3fs, gcsfs, …)."
        ) from error


def open_file(path: str) -> BinaryIO:
    """Open a file for reading from any place of it; errors are OSErrors."""
    if is_local(path):
        return Path(path).open("rb")
    filesystem, place = filesystem_of(path)
    return filesystem.open(place, "rb")


def size_and_stamp(path: str) -> tuple[int, str]:
    """Bytes of a file, and what its storage knows its present state by; empty where it keeps nothing."""
    if is_local(path):
        state = os.stat(path)
        return state.st_size, str(state.st_mtime_ns)
    filesystem, place = filesystem_of(path)
    filesystem.invalidate_cache()
    found = filesystem.info(place)
    return found["size"] or 0, next((str(found[key]) for key in _STAMPS if found.get(key)), "")


def hash_file(path: str) -> str:
    """SHA-256 of a file, in hex digits."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class ChangedFileError(UserError):
    """A file is not what it was when the run began."""


def changed_file(name: str) -> ChangedFileError:
    """The error that names a file and the remedy."""
    return ChangedFileError(
        f"{name} was changed or taken away while the corpus was read; nothing of it was kept. Run again once "
        "nobody writes there: the files are then hashed anew."
    )


class WatchedFile:
    """A file open for reading that can tell whether it still is what was planned; made by `watched`."""

    def __init__(self, piece: Slice, file: BinaryIO) -> None:
        self.file = file
        self._piece = piece
        self._digest: Any = None

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range, block by block."""
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
        """Compare what was read with what was planned.

        Raises:
            ChangedFileError: they differ.
        """
        if self._digest is None:
            _compare(self._piece)
            return
        while block := self.file.read(BLOCK):  # a reader may stop at damage
            self._digest.update(block)
        if self._digest.hexdigest() != self._piece.sha256:
            raise changed_file(self._piece.name)


@contextmanager
def watched(piece: Slice) -> Iterator[WatchedFile]:
    """Open the file of a slice; at the end of the block, and where it raises, the file is checked.

    Raises:
        ChangedFileError: it is gone, or not what was planned.
    """
    try:
        whole = piece.start == 0 and piece.end is None and piece.member is None
        if not whole or piece.kind == "parquet":
            _compare(piece)
        file = open_file(piece.path)
    except OSError as error:
        raise changed_file(piece.name) from error
    with file:
        watch = WatchedFile(piece, file)
        try:
            yield watch
        except Exception:
            watch.check()  # what was read of a file that changed meanwhile explains nothing
            raise
        watch.check()


def _compare(piece: Slice) -> None:
    try:
        unchanged = size_and_stamp(piece.path) == (piece.size, piece.stamp)
    except OSError as error:
        raise changed_file(piece.name) from error
    if not unchanged:
        raise changed_file(piece.name)
