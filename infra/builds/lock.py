"""The lock of a build on a local root: one builder per address, and none left locked by a dead one."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import posixpath
import shutil
from collections.abc import Iterator
from pathlib import Path

from infra.artifacts import ArtifactStore
from infra.builds.disk_errors import explained
from infra.builds.place import BuildPlace
from infra.disk.locks import close_lock, is_locked, open_lock

logger = logging.getLogger(__name__)

LOCK = "lock"


@contextlib.contextmanager
def locked(store: ArtifactStore, place: BuildPlace) -> Iterator[None]:
    """Hold the build's lock for the block; on an object store, which has no locks, do nothing.

    Raises:
        StorageFullError, UserError: the lock's file cannot be made (as `infra.builds.explained` does).
    """
    if not store.is_local:
        yield
        return
    path = store.absolute(posixpath.join(place.partial, LOCK))
    while True:
        descriptor = _open_lock(path)
        try:
            _wait_for(descriptor, place)
            # While we waited, a finished build may have deleted the file: what we hold is then a lock on nothing, and
            # another process may hold the new file. Try again with that.
            if _is_same_file(descriptor, path):
                yield
                return
        finally:
            close_lock(descriptor)


def is_being_built(partial: Path) -> bool:
    """Return whether a living process holds the lock of a build, by its folder on a local root."""
    return is_locked(str(partial / LOCK))


def discard_partial(partial: Path) -> bool:
    """Delete the folder of an unfinished build on a local root; returns False if a process has it, or it is gone.

    Raises:
        UserError: it cannot be deleted.
    """
    descriptor = None
    with explained(str(partial)):
        with contextlib.suppress(FileNotFoundError):  # killed before it had a lock
            descriptor = os.open(partial / LOCK, os.O_RDWR)
        try:
            if descriptor is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The lock goes last: who waits for it finds it gone, and makes another.
            for child in partial.iterdir():
                if child.name != LOCK:
                    shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
            shutil.rmtree(partial)
        except (BlockingIOError, FileNotFoundError):  # a process has it, or another one deletes it meanwhile
            return False
        finally:
            if descriptor is not None:
                os.close(descriptor)
    return True


def _open_lock(path: str) -> int:
    folder = posixpath.dirname(path)
    with explained(path):
        os.makedirs(posixpath.dirname(folder), exist_ok=True)
        while True:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            with contextlib.suppress(FileNotFoundError):  # a finished build has just deleted the folder
                return open_lock(path)


def _wait_for(descriptor: int, place: BuildPlace) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.info("another run is building %s; waiting for it", place.final)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
