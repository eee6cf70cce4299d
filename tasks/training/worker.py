"""A training process as a worker of Ray Train."""

from __future__ import annotations

from typing import Any

import ray.train
import ray.train.collective
import ray.train.torch
from ray.train import UserCallback

from infra.errors import UserError
from models.training.loop import Worker
from tasks.training.process import train_process
from tasks.training.run_spec import RunSpec


def train_worker(config: dict[str, Any]) -> None:
    """The function Ray Train runs on every worker; `config` is a `RunSpec` as a mapping, with nothing left open."""
    context = ray.train.get_context()
    worker = Worker(
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
        device=ray.train.torch.get_device(),
    )
    train_process(RunSpec.model_validate(config), worker, ray.train.collective.broadcast_from_rank_zero)


class GiveUpOnUserErrors(UserCallback):
    """Ends a run whose worker met something that starting it again does not mend: a full disk, a missing part."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Raise the first such error in Ray Train's controller, which then gives up."""
        for error in worker_exceptions.values():
            cause = getattr(error, "_base_exc", error)
            if isinstance(cause, UserError | FloatingPointError):
                raise cause
