"""The training driver: `python -m tasks.training.driver run.json`. No Prefect in it.

The stage `train` starts it as a child process, with a local Ray or on the cluster of the job that the stage is. Run by
hand it does the same work and shows a progress bar. A run that was killed resumes at its newest checkpoint, in the
run's storage.
"""

from __future__ import annotations

import sys

from infra.settings import available_cores
from tasks.training.launch.program import run_program
from tasks.training.run_spec import RunSpec
from tasks.training.sources import opened


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of the driver; returns the exit status."""
    return run_program(RunSpec, run, __doc__, arguments)


def run(spec: RunSpec) -> None:
    """Train to the end, resuming where an earlier attempt stopped; the first worker writes `result.json`.

    Raises:
        UserError: an input cannot be seen from here, the workers find no room, or a worker raised one.
        FloatingPointError: the loss stayed NaN or infinite.
    """
    opened(spec.sources, spec.store)
    if spec.workers == 0:
        _train_here(spec)
    else:
        _train_on_ray(spec)


def _train_here(spec: RunSpec) -> None:
    import torch

    from models.training.loop import Worker
    from tasks.training.process import train_process

    gpu = torch.cuda.is_available() if spec.gpu is None else spec.gpu
    cpus = spec.cpus_per_worker or available_cores()
    resolved = spec.model_copy(update={"cpus_per_worker": cpus, "gpu": gpu})
    # "cuda" alone would not do: `torch.cuda.set_device` wants a number
    train_process(resolved, Worker(device=torch.device("cuda", 0) if gpu else torch.device("cpu")))


def _train_on_ray(spec: RunSpec) -> None:
    # Ray takes seconds to import, and a run without workers does not need it.
    from tasks.training.ray_train import fit, placed
    from tasks.training.worker import train_worker

    with placed(spec.allocation) as placement:
        resolved = spec.model_copy(update={"cpus_per_worker": placement.cpus, "gpu": placement.gpu})
        fit(train_worker, resolved, spec.allocation, placement)


if __name__ == "__main__":
    sys.exit(main())
