"""Control of glibc's malloc, so that memory freed by one training step is ready for the next."""

import ctypes
import sys

_M_TRIM_THRESHOLD = -1  # numbers of glibc's malloc.h
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep freed memory of any size; return False, with nothing done, for other C libraries.

    A step on the CPU frees and requests the same gigabytes again. By default glibc maps each large tensor anew, and the
    kernel fills it with zeros page by page, which costs more than many of the operations themselves. Call it once,
    before the first large tensor. The process then keeps the maximum that it ever held.
    """
    return _set(((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20)))


def return_freed_memory() -> bool:
    """Undo `keep_freed_memory` and return free memory to the kernel now; return True if this was done.

    glibc's own thresholds rise with use and cannot be made dynamic again; these are the values where they end.
    """
    done = _set(
        ((_M_MMAP_MAX, 65536), (_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 64 << 20), (_M_TOP_PAD, 128 << 10))
    )
    if done:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return done


def _set(options: tuple[tuple[int, int], ...]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library, e.g. musl
        return False
    return all(mallopt(option, value) == 1 for option, value in options)
