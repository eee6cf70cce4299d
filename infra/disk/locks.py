"""Locks of files that tell others that a process lives: the kernel drops them when it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import posixpath
from collections.abc import Iterator

_descriptors: set[int] = set()


def open_lock(path: str) -> int:
    """Return a descriptor of a file, which is made if it is not there; no forked process keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    _descriptors.add(descriptor)
    return descriptor


def close_lock(descriptor: int) -> None:
    """Close a descriptor of `open_lock`, which gives its lock back."""
    if descriptor in _descriptors:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _drop_inherited_locks() -> None:
    # A forked worker shares its parent's locks and could outlive it: a lock must die with its holder.
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_drop_inherited_locks)


def is_locked(path: str) -> bool:
    """Return whether a living process holds the lock of a file; False if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def locked_file(folder: str, name: str, text: str) -> Iterator[None]:
    """Write a file that is locked from the moment it appears until the block ends."""
    unfinished = posixpath.join(folder, f".{name}")
    descriptor = open_lock(unfinished)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
        os.rename(unfinished, posixpath.join(folder, name))
        yield
    finally:
        close_lock(descriptor)
