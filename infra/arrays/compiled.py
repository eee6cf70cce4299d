"""Loops over characters and arrays, compiled to machine code by Numba.

A function is compiled when it is first called with arguments of new types, which takes a second or two. The result is
cached beside the source (or in the user's cache folder), so that other processes and later runs only load it. Compiled
functions release Python's lock while they run, and take only arrays and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function. Functions that it calls must be compiled too, and global arrays count as constants."""
    try:
        return cast(F, numba.njit(function, nogil=True, error_model="numpy", cache=True))
    except RuntimeError:  # no cache folder can be written: every process compiles for itself
        return cast(F, numba.njit(function, nogil=True, error_model="numpy"))
