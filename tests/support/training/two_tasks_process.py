"""One of two processes that train an objective of two tasks; started by test_distributed_tasks.py.

Arguments: rank, rendezvous file, input file, output file.
"""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

from models.training.loop import TrainingConfig, Worker, train
from tests.support.training.two_tasks import build, streams

WORLD = 2


def main(rank: int, rendezvous: str, given: str, found: str) -> None:
    """Run every setting from the beginning, and from the state that is given with it."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    jobs = torch.load(given, weights_only=False)
    out = {name: run(job["settings"], rank, job["state"]) for name, job in jobs.items()}
    torch.save(out, found)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the group and abort an orderly exit; the result is on the disk


def run(settings: dict[str, Any], rank: int, state: dict[str, Any] | None) -> dict[str, Any]:
    """Curves and states of a run on two workers."""
    curves: dict[tuple[int, str], dict[str, float]] = {}
    states: dict[int, Any] = {}
    train(
        build(hidden_dropout=0.1, attention_dropout=0.1),
        streams(),
        streams(20, 15, seed=7),
        TrainingConfig(**settings),
        worker=Worker(rank=rank, world_size=WORLD),
        state=state,
        report=lambda step, split, figures: curves.update({(step, split): dict(figures)}),
        save=lambda step, state, held_out: states.update({step: state}),
    )
    return {"curves": curves, "states": states}


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
