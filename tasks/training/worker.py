"""A training process as a worker of Ray Train."""

from __future__ import annotations

from typing import Any

import ray.train
import ray.train.collective
import ray.train.torch

from infra.artifacts import store_explained
from models.training.loop import Worker
from tasks.training.process import train_process
from tasks.training.run_spec import RunSpec


def train_worker(config: dict[str, Any]) -> None:
    """Do one worker's share; Ray Train calls it with a `RunSpec` as a mapping, with nothing left open."""
    context = ray.train.get_context()
    worker = Worker(
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
        device=ray.train.torch.get_device(),
    )
    spec = RunSpec.model_validate(config)
    with store_explained(spec.storage):
        train_process(spec, worker, ray.train.collective.broadcast_from_rank_zero)
