"""Ray below map-like stages: one task a part, on a local Ray that is started when there is enough to do.

With `RAY_ADDRESS` set the tasks run on that cluster, whose nodes must see the artifact store's root; with the
address of a job endpoint (http…) they run here, and only training goes to the cluster (infra/cluster/jobs.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

from infra import builds
from infra.settings import JOB_VARIABLE, REPOSITORY, is_job_endpoint
from infra.stage import SerialExecutor

logger = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 128 * 2**20
"""Tasks pass paths and records, never data; Ray's default would reserve a third of the memory."""

UNITS_IN_FLIGHT = 2
"""Units submitted a worker: enough to keep it busy, few enough that a million parts do not flood Ray."""


ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
"""A task has one CPU: with a thread for each of the machine's, workers would wait for one another. Ray itself tells
OpenMP, which Arrow and numpy mind too."""

SECONDS_ALONE = 4.0
"""How long this process works by itself, over all stages, before it starts a Ray of its own: for a handful of lines
that would be ten seconds of processor time for nothing."""


class RayExecutor:
    """Runs units as Ray tasks; what is a single unit, for a single worker, or soon done, is done in this process."""

    in_process = False

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.workers = workers
        self._address = address
        self._seconds_alone = SECONDS_ALONE

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        self.in_process = True
        if len(units) < 2 or self.workers < 2:
            yield from SerialExecutor().run(place, function, units)
            return
        waiting = list(reversed(units))
        if _is_private(self._address) and not is_ray_there():
            yield from self._begin_here(place, function, waiting)
        self.in_process = False
        if waiting:
            start_ray(self.workers, self._address)
            yield from self._on_ray(place, function, waiting)

    def _begin_here(
        self, place: builds.BuildPlace, function: Callable[..., None], waiting: list[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        """Do units here for a while, then start Ray, which takes seconds, and go on with them meanwhile."""
        while waiting and self._seconds_alone > 0:
            began = time.monotonic()
            record = builds.run_unit(place, function, waiting.pop())
            self._seconds_alone -= time.monotonic() - began
            yield record
        if not waiting:
            return
        pl.thread_pool_size()  # polars decides on its threads now: the environment changes while Ray starts
        enough = threading.Event()

        def work() -> list[builds.WorkRecord]:
            done = []
            while waiting and not enough.is_set():
                done.append(builds.run_unit(place, function, waiting.pop()))
            return done

        # Ray is started by the main thread: it handles signals there, and its processes die with their thread.
        with ThreadPoolExecutor(1) as thread:
            working = thread.submit(work)
            try:
                start_ray(self.workers, self._address)
            finally:
                enough.set()
        yield from working.result()

    def _on_ray(
        self, place: builds.BuildPlace, function: Callable[..., None], waiting: list[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        import ray

        remote = ray.remote(num_cpus=1, max_retries=3)(builds.run_unit)
        running: list[Any] = []
        while waiting or running:
            while waiting and len(running) < self.workers * UNITS_IN_FLIGHT:
                running.append(remote.remote(place, function, waiting.pop()))
            finished, running = ray.wait(running, num_returns=1)
            for reference in finished:
                yield _result(ray, reference)


def is_ray_there() -> bool:
    """Whether this process is connected to a Ray."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _is_private(address: str | None) -> bool:
    """Whether the tasks of this process run on a Ray of its own, which has to be started."""
    return JOB_VARIABLE not in os.environ and (address is None or is_job_endpoint(address))


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
    if is_ray_there():
        return
    import ray

    with _own_sigterm():
        _connect(ray, workers, address)


def _connect(ray: Any, workers: int, address: str | None) -> None:
    if JOB_VARIABLE in os.environ:  # the job has brought the code
        ray.init(address="auto", logging_level=logging.WARNING)
        return
    if address is not None and not _is_private(address):
        # The cluster's nodes get the code; they have the packages and see the store.
        code = {
            "working_dir": str(REPOSITORY),
            "excludes": [".venv", ".git", "/artifacts"],
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
def _own_sigterm() -> Iterator[None]:
    """What this process does on SIGTERM after the block as before it.

    Ray puts itself in that place, and once it is connected ends the process on the spot.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


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


def stop_ray() -> None:
    """Stop the local Ray of this process, or disconnect from the cluster."""
    if is_ray_there():
        sys.modules["ray"].shutdown()
