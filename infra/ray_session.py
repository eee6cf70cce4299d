"""Ray below map-like stages: one task a part, on a local Ray that is started when first needed.

With `RAY_ADDRESS` set the tasks run on that cluster, whose nodes must see the artifact store's root; with the
address of a job endpoint (http…) they run here, and only training goes to the cluster (infra/ray_jobs.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from infra import builds
from infra.settings import REPOSITORY, Settings, is_job_endpoint
from infra.stage import SerialExecutor

logger = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 128 * 2**20
"""Tasks pass paths and records, never data; Ray's default would reserve a third of the memory."""

UNITS_IN_FLIGHT = 2
"""Units submitted a worker: enough to keep it busy, few enough that a million parts do not flood Ray."""


ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
"""A task has one CPU: with a thread for each of the machine's, workers would wait for one another. Ray itself tells
OpenMP, which Arrow and numpy mind too."""

JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets it for the entry point of a job."""


class RayExecutor:
    """Runs units as Ray tasks; a single unit, or a single worker, is done in this process instead."""

    in_process = False

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.workers = workers
        self._address = address

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        self.in_process = len(units) < 2 or self.workers < 2
        if self.in_process:
            yield from SerialExecutor().run(place, function, units)
            return
        import ray

        start_ray(self.workers, self._address)
        remote = ray.remote(num_cpus=1, max_retries=3)(builds.run_unit)
        waiting = list(reversed(units))
        running: list[Any] = []
        while waiting or running:
            while waiting and len(running) < self.workers * UNITS_IN_FLIGHT:
                running.append(remote.remote(place, function, waiting.pop()))
            finished, running = ray.wait(running, num_returns=1)
            for reference in finished:
                yield _result(ray, reference)


def _result(ray: Any, reference: Any) -> builds.WorkRecord:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # Ray's own error prints the worker's traceback; the cause is what our callers handle.
        raise error.cause from None


def start_ray(workers: int, address: str | None) -> None:
    """Connect this process to Ray: the cluster at `address`, or a private local one with `workers` CPUs.

    Inside a Ray job it is the job's cluster. A job endpoint (http…) takes whole jobs, not single tasks: they run here.
    """
    import ray

    if ray.is_initialized():
        return
    if JOB_VARIABLE in os.environ:  # the job has brought the code
        ray.init(address="auto", logging_level=logging.WARNING)
        return
    if address is not None and not is_job_endpoint(address):
        # The cluster's nodes get the code; they have the packages and see the store.
        code = {
            "working_dir": str(REPOSITORY),
            "excludes": [".venv", ".git", "artifacts"],
            "env_vars": ONE_THREAD,
        }
        ray.init(address=address, logging_level=logging.WARNING, runtime_env=code)
        return
    # Its processes inherit the environment. As a `runtime_env` Ray would throw away the workers that it has begun with.
    with _environment({"PYTHONPATH": str(REPOSITORY), **ONE_THREAD}):
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.WARNING,
        )


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process for the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def nodes() -> list[dict[str, float]]:
    """The resources of every node of the cluster that this process is connected to, by Ray's names."""
    import ray

    return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def ask_autoscaler(bundles: list[dict[str, float]]) -> None:
    """Let an autoscaler, where the cluster has one, make room for bundles of resources; none lets it shrink again."""
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=bundles)


@contextlib.contextmanager
def executor_for(settings: Settings) -> Iterator[RayExecutor]:
    """An executor for the block; what it started is stopped at its end."""
    try:
        yield RayExecutor(settings.workers, settings.ray_address)
    finally:
        stop_ray()


def stop_ray() -> None:
    """Stop the local Ray of this process, or disconnect from the cluster."""
    import sys

    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        sys.modules["ray"].shutdown()
