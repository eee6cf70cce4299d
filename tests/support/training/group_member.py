"""Groups of processes that train a run together, as Ray Train's workers do; forked from one program for test_resize.py.

A group is a line of JSON on standard input: its size, rendezvous file, run.json, and the step after whose checkpoint
the last of the group is killed; 0: none. The exit status of each process is printed as JSON, after `STATUSES`; what a
process says is in <rank>.log beside run.json.
"""

import json
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


STATUSES = "exit statuses: "


def start(rank: int, size: int, rendezvous: str, run: str, leaves: int) -> int:
    """Fork a process of a group, before anything is trained, so that torch is imported once; return its id."""
    if process := os.fork():
        return process
    log = os.open(Path(run).parent / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, sys.stderr.fileno())
    status = main(rank, size, rendezvous, run, leaves)
    sys.stderr.flush()
    os._exit(status)  # gloo's threads may outlive the group and abort an orderly exit


def groups() -> None:
    """Start the groups that standard input describes, one after the other, and print their exit statuses."""
    for line in sys.stdin:
        size, *given = json.loads(line)
        processes = [start(rank, size, *given) for rank in range(size)]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        print(STATUSES + json.dumps(statuses), flush=True)  # the processes may print before


if __name__ == "__main__":
    two_tasks.register()
    groups()
