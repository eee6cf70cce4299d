"""Cost of a block of work in this process: CPU seconds and peak resident memory."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Usage:
    """Cost of a block; filled in when the block ends."""

    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0


_measuring: list[Usage] = []


@contextlib.contextmanager
def measure_usage() -> Iterator[Usage]:
    """Measure a block; blocks may nest. The peak is the block's own on Linux, the process's so far elsewhere."""
    usage = Usage()
    _reset_peak()
    _measuring.append(usage)
    started = time.process_time()
    try:
        yield usage
    finally:
        usage.cpu_seconds = time.process_time() - started
        _note_peak()
        _measuring[:] = [other for other in _measuring if other is not usage]


def _note_peak() -> None:
    peak = _peak_memory()
    for usage in _measuring:
        usage.peak_memory_bytes = max(usage.peak_memory_bytes, peak)


def _reset_peak() -> None:
    _note_peak()  # for the enclosing blocks, because the mark that they need is about to be reset
    # Writing 5 resets the kernel's high-water mark of resident memory; not every container allows it.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere
