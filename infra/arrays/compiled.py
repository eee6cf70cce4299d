"""Loops over characters and arrays, compiled to machine code by Numba.

A function is compiled when it is first called with arguments of new types, which takes a second or two. The result is
cached beside the source (or in the user's cache folder), so that other processes and later runs only load it. Compiled
functions release Python's lock while they run, and take only arrays and numbers.

Machine code contains the functions that it calls and the constants that it reads. Numba's cache looks at the
function's own file alone: after a change in a file from which it imports, the old code would run on. The cache here
asks for both.

Processes that need the same function at once take turns: one compiles it, the others load what it has cached. Numba
leaves them to themselves. Then all compile it, and two that write code for different types may give both one file name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from infra.disk.locks import close_lock, open_lock

SECONDS_OF_WAITING = 60.0
"""After so long a process compiles for itself, whoever has the turn: the longest function takes a few seconds, and a
process whose compilation failed keeps the turn while it lives."""
SECONDS_BETWEEN_TRIES = 0.02

F = TypeVar("F", bound=Callable[..., object])


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield some code and that of the functions and comprehensions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def written(value: object) -> bytes | None:
    """Return a constant as bytes, the same for the same value, or None for what machine code has not as a constant."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, (tuple, frozenset)):
        parts = [written(one) or b"" for one in value]
        return b"(" + b",".join(sorted(parts) if isinstance(value, frozenset) else parts) + b")"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}".encode()
    return None


def meaning(function: FunctionType) -> str:
    """Return a hash of what a function does: its code, that of the compiled functions it calls, and its constants.

    What is neither a compiled function nor a constant (modules such as numpy) is left to Numba's own checks.
    """
    digest = hashlib.sha256()
    seen: set[FunctionType] = set()

    def add(one: FunctionType) -> None:
        seen.add(one)
        for code in codes_of(one.__code__):
            digest.update(repr((code.co_name, code.co_code, code.co_names, code.co_varnames)).encode())
            digest.update(written(tuple(each for each in code.co_consts if not isinstance(each, CodeType))) or b"")
            for name in code.co_names:
                value = one.__globals__.get(name)
                if isinstance(value, Dispatcher):
                    digest.update(b"calls")
                    if value.py_func not in seen:
                        add(value.py_func)
                else:
                    digest.update(written(value) or b"")

    add(function)
    return digest.hexdigest()


class CacheByMeaning(FunctionCache):
    """Numba's cache of machine code, which also asks for the meaning of the function, and lets processes take turns."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._lock_path = os.path.join(self.cache_path, f"{self._impl.filename_base}.lock")
        self._turn: int | None = None
        """Descriptor of the lock, while this process compiles."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for some types, or None, with the turn to compile it."""
        found = super().load_overload(sig, target_context)
        if found is None:
            self._take_turn()
            # Another process may have saved it before it gave the turn away.
            found = super().load_overload(sig, target_context)
            if found is not None:
                self._give_turn()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code for some types, and give the turn away."""
        try:
            super().save_overload(sig, data)
        finally:
            self._give_turn()

    def _take_turn(self) -> None:
        if self._turn is not None:  # a function that calls itself with other types
            return
        try:
            self._turn = open_lock(self._lock_path)
        except OSError:  # the folder can be read, not written: every process compiles for itself
            return
        until = time.monotonic() + SECONDS_OF_WAITING
        while not _locks(self._turn) and time.monotonic() < until:
            time.sleep(SECONDS_BETWEEN_TRIES)

    def _give_turn(self) -> None:
        if self._turn is not None:
            close_lock(self._turn)
            self._turn = None

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), meaning(self._py_func))


def _locks(descriptor: int) -> bool:
    """Lock a file unless another process has it; True if it is locked now, or cannot be."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def compiled(function: F) -> F:
    """Compile a function. Functions that it calls must be compiled too, and global arrays count as constants."""
    dispatcher: Any = numba.njit(function, nogil=True, error_model="numpy")
    with contextlib.suppress(RuntimeError):  # no cache folder can be written: every process compiles for itself
        dispatcher._cache = CacheByMeaning(function)  # what `cache=True` does, with a cache of ours
    return cast(F, dispatcher)
