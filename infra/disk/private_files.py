"""Files that only their owner can read: medical text must not be readable by other users of a machine."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

OTHERS = 0o077
"""Permissions of the group and of everybody else, in `os.umask`'s form."""


@dataclass
class _Blocks:
    """Blocks of this process in which files are private, whatever thread they run in."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    open: int = 0
    before: int = 0
    """Umask before the first of them began."""


_blocks = _Blocks()


def _own_lock() -> None:
    """Give a forked process a lock of its own: a thread that exists only in the parent may hold the one it copied."""
    _blocks.lock = threading.Lock()


os.register_at_fork(after_in_child=_own_lock)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders without permissions for others, until the block ends; usable as a decorator.

    It holds for all threads of the process, until the last of the blocks that overlap has ended, and for processes
    that it starts. Existing files keep their permissions. An umask that forbids more than that stays as it is.
    """
    with _blocks.lock:
        umask = os.umask(OTHERS)
        os.umask(umask | OTHERS)
        if not _blocks.open:
            _blocks.before = umask
        _blocks.open += 1
    try:
        yield
    finally:
        with _blocks.lock:
            _blocks.open -= 1
            # A run in another thread, of a notebook or the service, must not lose its protection here.
            if not _blocks.open:
                os.umask(_blocks.before)
