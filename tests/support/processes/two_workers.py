"""Two processes of one script that train together over gloo, and what each of them found."""

from __future__ import annotations

import os
import subprocess
import sys
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
    files = [folder / f"{rank}.pt" for rank in range(WORLD)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script.__file__), str(rank), folder / "rendezvous", folder / "given.pt", file],
            env=environment,
        )
        for rank, file in enumerate(files)
    ]
    try:
        assert [process.wait(timeout=240) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    return [torch.load(file, weights_only=False) for file in files]


def work_as_member(work: Callable[[int, Any], Any]) -> None:
    """Be one of the two processes: `work` takes the rank and what was given, and returns what was found."""
    rank, (rendezvous, given, found) = int(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    torch.save(work(rank, torch.load(given, weights_only=False)), found)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the group and abort an orderly exit; the result is on the disk
