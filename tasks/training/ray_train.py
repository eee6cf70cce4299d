"""Long work on the workers of Ray Train, which replaces a worker that dies; all resume from the last checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ray.train import UserCallback
from ray.train.torch import TorchConfig

# What `ray.train` gives at run time; its own names are typed as those of version 1.
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.exceptions import TrainingFailedError
from ray.train.v2.torch.torch_trainer import TorchTrainer

from infra.cluster.session import ask_autoscaler, nodes, start_ray, stop_ray
from infra.errors import StoreLostError, UserError
from infra.settings import Settings, available_cores
from tasks.training.cluster import Cluster
from tasks.training.launch import LongWork
from tasks.training.placement import Placement, wait_for_room


@contextlib.contextmanager
def placed(cluster: Cluster) -> Iterator[Placement]:
    """Connect to the cluster of RAY_ADDRESS, or to a Ray of our own, and give the placement once there is room.

    Raises:
        UserError: the workers find no room.
    """
    address = Settings.from_environment().ray_address
    cores_per_worker = cluster.cpus_per_worker or max(1, available_cores() // cluster.most_workers)
    start_ray(cluster.most_workers * cores_per_worker, address)
    try:
        # A Ray of our own never grows, so waiting would be in vain.
        seconds = 60 * cluster.wait_minutes if address else 0.0
        yield wait_for_room(cluster, nodes, seconds=seconds, ask=ask_autoscaler)
    finally:
        stop_ray()


def fit(worker: Callable[[dict[str, Any]], None], work: LongWork, cluster: Cluster, placement: Placement) -> None:
    """Call `worker` with the work, as a mapping, in every worker process, and return when all have returned.

    Args:
        worker: module-level function of a module other than `__main__`.

    Raises:
        UserError, FloatingPointError: a worker raised one, which a restart would not fix.
        TrainingFailedError: workers died more often than `cluster` allows.
    """
    trainer = TorchTrainer(
        worker,
        train_loop_config=work.model_dump(),
        torch_config=TorchConfig(backend="nccl" if placement.gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=placement.workers, use_gpu=placement.gpu, resources_per_worker=placement.resources
        ),
        run_config=RunConfig(
            name=work.name,
            storage_path=work.storage,
            failure_config=FailureConfig(
                max_failures=cluster.max_failures, max_preemption_failures=cluster.max_preemptions
            ),
            callbacks=[GiveUpOnUserErrors()],
        ),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        cause = getattr(error, "controller_failure", None)
        if isinstance(cause, UserError | FloatingPointError):  # from GiveUpOnUserErrors
            raise cause from error
        raise


class GiveUpOnUserErrors(UserCallback):
    """Ends the work when a worker met an error that a restart would not fix, such as a full disk or a missing part."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        """Raise the first such error in Ray Train's controller, which then gives up."""
        for error in worker_exceptions.values():
            cause = getattr(error, "_base_exc", error)
            # A store that does not answer now may be back when the workers have started again.
            if isinstance(cause, UserError | FloatingPointError) and not isinstance(cause, StoreLostError):
                raise cause
