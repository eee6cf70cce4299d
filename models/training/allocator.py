"""Keep the memory that a training step frees, so that the next step need not ask the kernel for it again."""

import ctypes
import sys

_M_TRIM_THRESHOLD = -1  # numbers of glibc's malloc.h
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep freed memory, whatever its size. True where it did; False, and nothing done,
    elsewhere.

    A step on the CPU frees and asks again for the same gigabytes; by default glibc maps each large tensor afresh
    and the kernel fills it with zeros page by page, which costs more than many of the operations themselves. Call
    it once, before the first large tensor. The process then keeps the most it ever held.
    """
    return _set(((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20)))


def return_freed_memory() -> bool:
    """Undo `keep_freed_memory`, and give what is free back to the kernel now. True where it did.

    glibc's own thresholds rise with use and cannot be made to do so again; these are where they end.
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
