"""One of two processes that train an objective of two tasks; started by test_distributed_tasks.py."""

from typing import Any

from models.training.loop import Worker
from tests.support.processes.two_workers import WORLD, work_as_members
from tests.support.training.two_tasks import trained


def work(rank: int, jobs: dict[str, Any]) -> dict[str, Any]:
    """Run every setting from the beginning, or from the state that is given with it."""
    worker = Worker(rank=rank, world_size=WORLD)
    return {name: trained(job["settings"], job["state"], worker) for name, job in jobs.items()}


if __name__ == "__main__":
    work_as_members(work)
