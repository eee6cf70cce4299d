"""Freed memory stays with the process."""

import subprocess
import sys
from pathlib import Path

import pytest

from models.allocator import keep_freed_memory

PROGRAM = """
import resource, torch
from models.allocator import keep_freed_memory
assert keep_freed_memory()
for _ in range(20):  # until the heap has its shape
    torch.empty(16 << 20).fill_(1.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.empty(16 << 20).fill_(1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_pages_are_not_faulted_in_again() -> None:
    """64 MB freed and asked for twenty times over: 16,384 pages a time, were they handed back."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 2000


def test_other_platforms_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
