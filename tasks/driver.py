"""The training driver: `python -m tasks.driver run.json`. No Prefect in it.

The training stage starts it as a child process with a local Ray; on a cluster it is the entry point of a Ray
job. Run by hand it does the same work and shows the same bar. A run that was killed resumes at its last
checkpoint, because Ray Train finds it under the run's name, which is the fingerprint of the work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path

import fsspec

from infra.ray_session import start_ray, stop_ray
from infra.settings import Settings
from tasks.follow import RunFollower
from tasks.progress import StageProgress
from tasks.run_spec import RunSpec


def main(arguments: list[str] | None = None) -> None:
    """Command line of the driver."""
    parser = argparse.ArgumentParser(prog="python -m tasks.driver", description=__doc__)
    parser.add_argument("run", type=Path, metavar="run.json", help="the resolved run, as the train stage writes it")
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="show no bar, and stop when standard input closes (the parent died)",
    )
    options = parser.parse_args(arguments)
    spec = RunSpec.read(options.run)
    if options.quiet:
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        run(spec)
        return
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


def run(spec: RunSpec) -> None:
    """Train to the end, resuming where an earlier attempt stopped, and write `result.json`."""
    # Inside a Ray job the cluster's address is found by itself; the http one is for submitting.
    address = Settings.from_environment().ray_address
    start_ray(spec.workers * spec.cpus_per_worker, "auto" if address and address.startswith("http") else address)
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from tasks.training_worker import train_worker

    trainer = TorchTrainer(
        train_worker,
        train_loop_config=spec.model_dump(),
        torch_config=TorchConfig(backend="nccl" if spec.gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=spec.workers,
            use_gpu=spec.gpu,
            resources_per_worker={"CPU": spec.cpus_per_worker} | ({"GPU": 1} if spec.gpu else {}),
        ),
        run_config=RunConfig(
            name=spec.name,
            storage_path=spec.storage,
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            failure_config=FailureConfig(max_failures=spec.max_failures),
        ),
    )
    result = trainer.fit()
    if result.checkpoint is None:
        raise RuntimeError(f"Ray Train ended without a checkpoint of run {spec.name}")
    checkpoint = f"{spec.storage}/{spec.name}/{Path(result.checkpoint.path).name}"
    with fsspec.open(spec.result_path, "wb") as file:
        file.write(json.dumps({"checkpoint": checkpoint}).encode())
    stop_ray()


def _stop_with_parent() -> None:
    # The parent holds the other end of our standard input and never writes: end of file means it is gone.
    # Read below Python's buffers, whose lock a thread that waits would still hold when the process ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
