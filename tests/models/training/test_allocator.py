"""Freed memory is kept by the process."""

import subprocess
import sys

import pytest

from infra.settings import REPOSITORY
from models.training.allocator import keep_freed_memory

PROGRAM = """
import resource, torch
from models.training.allocator import keep_freed_memory
assert keep_freed_memory()
for _ in range(20):  # until the heap has its shape
    torch.empty(16 << 20).fill_(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.empty(16 << 20).fill_(1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


RETURNING = """
import torch
from models.training.allocator import keep_freed_memory, return_freed_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
keep_freed_memory()
start = resident()
torch.empty(32 << 20).fill_(1.0)
kept = resident() - start
assert return_freed_memory()
print(kept, resident() - start)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_pages_are_not_faulted_in_again() -> None:
    """64 MB freed and requested twenty times: 16,384 page faults each time, if it were returned."""
    assert int(run(PROGRAM)[0]) < 2000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_kept_memory_can_be_returned() -> None:
    """128 MB: still held after they were freed, gone after `return_freed_memory`."""
    kept, left = run(RETURNING)
    assert int(kept) > 120e6 and int(left) < 20e6


def run(program: str) -> list[str]:
    """Output of the program in a process of its own."""
    root = REPOSITORY
    environment = {"PYTHONPATH": str(root)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_other_platforms_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
