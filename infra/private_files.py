"""Files that only their owner can read: medical text must not be readable by other users of a machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

OTHERS = 0o077
"""Permissions of the group and of everybody else, in `os.umask`'s form."""


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders without permissions for others, until the block ends; usable as a decorator.

    It holds for all threads of the process and for processes that it starts. Existing files keep their permissions.
    An umask that forbids more than that stays as it is.
    """
    before = os.umask(OTHERS)
    os.umask(before | OTHERS)
    try:
        yield
    finally:
        os.umask(before)
