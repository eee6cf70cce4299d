"""Connection to Ray, and the executor that runs each part of a map-like stage as a Ray task.

With `RAY_ADDRESS` the tasks run on that cluster, whose nodes must see the artifact store's root. Without it, or with
the address of a job endpoint (http…), they run on a private Ray of this process, started when there is enough to do.
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
from infra.cluster.private_ray import access_variables, make_folder, read_access_again, remove_folder
from infra.errors import UserError
from infra.place import IMPORTED_FROM, uploaded_code
from infra.settings import JOB_VARIABLE, is_job_endpoint
from infra.stage import SerialExecutor

logger = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 128 * 2**20
"""Memory of a private Ray's object store. Tasks pass paths and records, never data; by default Ray reserves a third
of the machine."""

UNITS_IN_FLIGHT = 2
"""Units submitted per worker: enough to keep it busy, few enough that a million parts do not flood Ray."""


ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
"""A task has one core: with a thread for each core of the machine, workers would wait for one another. Ray itself sets
the variable of OpenMP, which Arrow and numpy obey too."""

SECONDS_ALONE = 4.0
"""Time that this process works by itself, summed over all stages, before it starts a private Ray, which takes ten
seconds of processor time: too much for a handful of lines."""


class NoRayError(UserError):
    """A private Ray did not start."""


class RayExecutor:
    """Runs units as Ray tasks; a single unit, units for a single worker, and what is soon done run in this process."""

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
            try:
                yield from self._begin_here(place, function, waiting)
            except NoRayError as error:
                logger.warning("%s This run works in one process.", error)
                self.workers = 1
                yield from SerialExecutor().run(place, function, waiting[::-1])
                return
        self.in_process = False
        if waiting:
            start_ray(self.workers, self._address)
            yield from self._on_ray(place, function, waiting)

    def _begin_here(
        self, place: builds.BuildPlace, function: Callable[..., None], waiting: list[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        """Do units here for a while, then start Ray and continue with them until it is there."""
        while waiting and self._seconds_alone > 0:
            began = time.monotonic()
            record = builds.run_unit(place, function, waiting.pop())
            self._seconds_alone -= time.monotonic() - began
            yield record
        if not waiting:
            return
        pl.thread_pool_size()  # polars fixes its threads now: the environment changes while Ray starts
        enough = threading.Event()

        def work() -> list[builds.WorkRecord]:
            done = []
            while waiting and not enough.is_set():
                done.append(builds.run_unit(place, function, waiting.pop()))
            return done

        # The main thread starts Ray: Ray handles signals there, and its processes die with the thread that starts them.
        with ThreadPoolExecutor(1) as thread:
            working = thread.submit(work)
            failure = None
            try:
                start_ray(self.workers, self._address)
            except NoRayError as error:
                failure = error
            finally:
                enough.set()
        yield from working.result()
        if failure is not None:
            raise failure

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
    """Return whether this process is connected to a Ray."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _is_private(address: str | None) -> bool:
    """Return whether the tasks of this process run on a private Ray, which has to be started."""
    return JOB_VARIABLE not in os.environ and (address is None or is_job_endpoint(address))


def _result(ray: Any, reference: Any) -> builds.WorkRecord:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # Ray's own error is the worker's traceback as text; callers handle the cause, such as a UserError.
        raise error.cause from None


def start_ray(workers: int, address: str | None) -> None:
    """Connect this process to Ray: the cluster at `address`, or a private local one with `workers` CPUs.

    Inside a Ray job it is the job's cluster. A job endpoint (http…) accepts whole jobs, not single tasks: those run
    here.
    """
    if is_ray_there():
        return
    import ray

    with _own_sigterm():
        _connect(ray, workers, address)


def _connect(ray: Any, workers: int, address: str | None) -> None:
    if JOB_VARIABLE in os.environ:  # the job has brought its code along
        ray.init(address="auto", logging_level=logging.WARNING)
        return
    if address is not None and not _is_private(address):
        # The nodes have the packages and see the store, but not the code of this checkout.
        code = {
            **uploaded_code([".venv", ".git", "/artifacts"]),
            "env_vars": ONE_THREAD,
        }
        ray.init(address=address, logging_level=logging.WARNING, runtime_env=code)
        return
    # Its processes inherit the environment. Given as a `runtime_env`, Ray would discard the workers it started first.
    with _environment({"PYTHONPATH": str(IMPORTED_FROM), **ONE_THREAD, **access_variables(is_job_endpoint(address))}):
        read_access_again()
        folder = make_folder()
        try:
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.WARNING,
                _temp_dir=folder,
            )
        except Exception as error:
            # Ray waits 30 s for its own processes and raises a plain Exception; subclasses are mistakes in our call.
            if type(error) not in (Exception, RuntimeError):
                raise
            raise NoRayError(
                f"Ray did not start on this machine, which may be busy or short of memory ({error}). Run again when it "
                "is not, or without Ray: with YIWEN_WORKERS=1, and for a training with cluster.workers=0."
            ) from error


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore this process's SIGTERM handler after the block.

    Ray installs its own, which ends the process on the spot once it is connected.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process for the block."""
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
    """Return the resources of every living node of the connected cluster, by Ray's names."""
    import ray

    return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def ask_autoscaler(bundles: list[dict[str, float]]) -> None:
    """Ask the cluster's autoscaler, if any, to make room for bundles of resources; no bundles let it shrink again."""
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=bundles)


def stop_ray() -> None:
    """Stop the local Ray of this process, or disconnect from the cluster."""
    if is_ray_there():
        sys.modules["ray"].shutdown()
        remove_folder()
