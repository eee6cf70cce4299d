"""A group of processes that train a run together, as Ray Train's workers do; started by test_resize.py.

Arguments: size of the group, rendezvous file, run.json, and the step after whose checkpoint the last of the group is
killed; 0: none. Prints the exit status of each process; what a process says is in <rank>.log beside run.json.
"""

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import torch.distributed as dist

from models.training.loop import Worker
from tasks.training import process as training_process
from tasks.training.process import Saver, train_process
from tasks.training.run_spec import RunSpec
from tests.support.training import two_tasks


class LeavingSaver(Saver):
    """A saver that completes the checkpoint of a step; the last process of the group is then killed."""

    leaves: int
    is_last: bool

    def __call__(self, step: int, *given: Any) -> None:
        super().__call__(step, *given)
        if step == self.leaves:
            self._writer.wait()
            if self.is_last:
                os.kill(os.getpid(), signal.SIGKILL)


def main(rank: int, size: int, rendezvous: str, run: str, leaves: int) -> int:
    """Do this process's share, and return the exit status."""
    LeavingSaver.leaves, LeavingSaver.is_last = leaves, rank == size - 1
    training_process.Saver = LeavingSaver
    if size > 1:
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    try:
        train_process(RunSpec.read(run), Worker(rank=rank, world_size=size), agree if size > 1 else lambda n: n)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def agree(number: int) -> int:
    """Return the first process's number on all."""
    given = [number]
    dist.broadcast_object_list(given)
    return given[0]


def start(rank: int, *given: Any) -> int:
    """Fork a process of the group, before anything is trained, so that torch is imported once; return its id."""
    if process := os.fork():
        return process
    log = os.open(Path(sys.argv[3]).parent / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, sys.stderr.fileno())
    status = main(rank, *given)
    sys.stderr.flush()
    os._exit(status)  # gloo's threads may outlive the group and abort an orderly exit


def group() -> None:
    """Start the group that the command line describes, and print the exit statuses."""
    size = int(sys.argv[1])
    processes = [start(rank, size, *sys.argv[2:4], int(sys.argv[4])) for rank in range(size)]
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes))


if __name__ == "__main__":
    two_tasks.register()
    group()
