"""The training driver: `python -m tasks.training.driver run.json`. No Prefect in it.

The training stage starts it as a child process with a local Ray, or as the entry point of a Ray job. Run by hand it
does the same work and shows the same bar. A run that was killed resumes at its newest checkpoint, which lies below
the run's storage; the storage's name holds the fingerprint of the work.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from infra.artifacts import ArtifactStore
from infra.cluster.session import ask_autoscaler, nodes, start_ray, stop_ray
from infra.errors import UserError
from infra.progress import StageProgress
from infra.settings import Settings, available_cores
from tasks.training.follow import RunFollower
from tasks.training.placement import Placement, wait_for_room
from tasks.training.run_spec import RunSpec

USER_ERROR_STATUS = 2
"""Exit status after a mistake of the user, whose message is the last line."""


def main(arguments: list[str] | None = None) -> int:
    """Command line of the driver; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tasks.training.driver", description=__doc__)
    parser.add_argument("run", metavar="run.json", help="path or URI of the run, as the train stage writes it")
    parser.add_argument("--quiet", action="store_true", help="show no bar")
    parser.add_argument(
        "--with-parent", action="store_true", help="stop when standard input closes: the parent that held it is gone"
    )
    options = parser.parse_args(arguments)
    if options.with_parent:
        threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        spec = RunSpec.read(options.run)
        run(spec) if options.quiet else _run_with_bar(spec)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return USER_ERROR_STATUS
    return 0


def run(spec: RunSpec) -> None:
    """Train to the end, resuming where an earlier attempt stopped; the first worker writes `result.json`.

    Raises:
        UserError: the examples are not to be seen from here, the workers find no room, the loss stayed not finite, or
            a worker raised one.
    """
    if ArtifactStore(spec.store).get("encode", spec.examples) is None:
        raise UserError(
            f"{spec.store} holds no encoded examples {spec.examples}. If a cluster trains, all its nodes must see "
            "YIWEN_HOME: a shared file system, or a URI such as s3://…."
        )
    try:
        if spec.workers == 0:
            _train_here(spec)
        else:
            _train_on_ray(spec)
    except FloatingPointError as error:  # no defect of ours: the message says what to change
        raise UserError(str(error)) from error
    if spec.result() is None:
        raise RuntimeError(f"the training of run {spec.name} ended without a result")


def _train_here(spec: RunSpec) -> None:
    import torch

    from models.training.loop import Worker
    from tasks.training.process import train_process

    gpu = torch.cuda.is_available() if spec.gpu is None else spec.gpu
    cpus = spec.cpus_per_worker or available_cores()
    resolved = spec.model_copy(update={"cpus_per_worker": cpus, "gpu": gpu})
    # With its number: `torch.cuda.set_device` takes no device without one.
    train_process(resolved, Worker(device=torch.device("cuda", 0) if gpu else torch.device("cpu")))


def _train_on_ray(spec: RunSpec) -> None:
    address = Settings.from_environment().ray_address
    start_ray(spec.most_workers * (spec.cpus_per_worker or _cores_of_one(spec)), address)
    try:
        seconds = 60 * spec.cluster.wait_minutes if address else 0.0
        placement = wait_for_room(spec, nodes, seconds=seconds, ask=ask_autoscaler)
        _fit(spec, placement)
    finally:
        stop_ray()


def _fit(spec: RunSpec, placement: Placement) -> None:
    # What `ray.train` gives at run time; its own names are typed as those of version 1.
    from ray.train.torch import TorchConfig
    from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.exceptions import TrainingFailedError
    from ray.train.v2.torch.torch_trainer import TorchTrainer

    from tasks.training.worker import GiveUpOnUserErrors, train_worker

    resolved = spec.model_copy(update={"cpus_per_worker": placement.cpus, "gpu": placement.gpu})
    trainer = TorchTrainer(
        train_worker,
        train_loop_config=resolved.model_dump(),
        torch_config=TorchConfig(backend="nccl" if placement.gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=spec.workers, use_gpu=placement.gpu, resources_per_worker=placement.resources
        ),
        run_config=RunConfig(
            name=spec.name,
            storage_path=spec.storage,
            failure_config=FailureConfig(
                max_failures=spec.cluster.max_failures, max_preemption_failures=spec.cluster.max_preemptions
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


def _cores_of_one(spec: RunSpec) -> int:
    return max(1, available_cores() // spec.most_workers)


def _run_with_bar(spec: RunSpec) -> None:
    finished = threading.Event()
    with StageProgress("train", unit="step") as progress:
        watch = RunFollower(spec, progress.update).until
        follower = threading.Thread(target=watch, args=(finished.is_set,), daemon=True)
        follower.start()
        try:
            run(spec)
        finally:
            finished.set()
            follower.join()


def _stop_with_parent() -> None:
    # The parent holds the other end of our standard input and never writes: end of file means it is gone.
    # Read below Python's buffers, whose lock a thread that waits would still hold when the process ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
