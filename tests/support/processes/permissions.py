"""Permissions of files that hold in this thread, as they do for a user who is not root."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

_VERSION = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextlib.contextmanager
def without_override() -> Iterator[None]:
    """Drop root's right to read and write every file during the block; Linux only."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    before, during = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    assert libc.capget(header, before) == 0
    during[:] = before[:]
    during[0] &= ~_OVERRIDES
    assert libc.capset(header, during) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0
