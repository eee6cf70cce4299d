"""Loops over characters and arrays as machine code, by Numba.

A compiled function is translated when it is first called with arguments of new types, which takes a second or two;
the result is kept beside the source (or in the user's cache folder), so that other processes and later runs only
load it. It lets go of Python's lock while it runs, and takes nothing but arrays and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function as machine code. What it calls must be compiled too, and global arrays count as constants."""
    try:
        return cast(F, numba.njit(function, nogil=True, error_model="numpy", cache=True))
    except RuntimeError:  # no folder can be written: every process translates for itself
        return cast(F, numba.njit(function, nogil=True, error_model="numpy"))
