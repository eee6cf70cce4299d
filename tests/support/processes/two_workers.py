"""Two processes of one script that train together over gloo, and what each of them found."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from infra.settings import REPOSITORY

WORLD = 2


def run_two_workers(script: ModuleType, given: Any, folder: Path) -> list[Any]:
    """Run a module, whose program calls `work_as_member`, as two processes; return what each of them found."""
    torch.save(given, folder / "given.pt")
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, str(script.__file__), folder], env=environment, start_new_session=True)
    try:
        assert process.wait(timeout=240) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


def work_as_members(work: Callable[[int, Any], Any]) -> None:
    """Fork the two processes, so that torch is imported once, and exit with 0 if both have.

    `work` takes the rank and what was given, and returns what was found.
    """
    members = [_member(work, rank, Path(sys.argv[1])) for rank in range(WORLD)]
    sys.exit(any([os.waitpid(member, 0)[1] for member in members]))


def _member(work: Callable[[int, Any], Any], rank: int, folder: Path) -> int:
    if member := os.fork():
        return member
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD)
        torch.save(work(rank, torch.load(folder / "given.pt", weights_only=False)), folder / f"{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # gloo's threads may outlive the group and abort an orderly exit; the result is on the disk
