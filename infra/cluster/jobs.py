"""Jobs on a Ray cluster through its job endpoint (`RAY_ADDRESS=http://head:8265`).

A job outlives the process that submitted it. Its submission id names its work and its attempt. So the same command,
run again, finds the running job and follows it, and starts another attempt only after the last one failed.

The checkout is uploaded with the job, unless `YIWEN_CLUSTER_CODE` names a folder of the cluster's image that holds the
code. The packages of constraints.txt must be installed there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from infra.cluster.copied_log import CopiedLog
from infra.errors import UserError
from infra.place import uploaded_code
from infra.settings import PRIVACY_DEFAULTS
from infra.uris import warn_of_plain_http

logger = logging.getLogger(__name__)

EXCLUDED = ["/artifacts", "/benchmarks", "/docs", "/tests"]
"""Folders of the checkout that no job needs, beside those that git ignores: /artifacts, but not infra/artifacts."""

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
SECONDS_BETWEEN_LOOKS = 1.0
PATIENCE_SECONDS = 300.0
"""Time without an answer from the endpoint after which a running job is no longer followed."""
STOP_SECONDS = 60.0
LOG_SECONDS = 10.0
"""Time for the last lines of a job to arrive after it has ended."""


class EndpointLostError(RuntimeError):
    """The endpoint no longer answers. The job may still be running."""


class JobEndpoint:
    """Job endpoint of a cluster.

    Raises:
        UserError: nothing answers at the address, or the endpoint does not accept our token.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        _knock(address)
        if os.environ.get("RAY_AUTH_MODE") == "token":
            warn_of_plain_http(address, "The token of the Ray cluster")
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient

        class Client(JobSubmissionClient):
            """Ray's client without its endless waiting: during a week of training a head node may vanish."""

            def _do_request(self, *arguments: Any, **options: Any) -> Any:
                return super()._do_request(*arguments, timeout=REQUEST_SECONDS, **options)

        try:
            self.client = Client(address)
        except AuthenticationError as error:
            raise UserError(
                f"The cluster at {address} asks for a token that was missing or wrong. Set RAY_AUTH_MODE=token "
                "and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH, a file) to the cluster's token, or RAY_AUTH_MODE=disabled "
                "if it has none."
            ) from error
        except (RuntimeError, OSError, ValueError) as error:
            raise UserError(f"{address} is not a usable job endpoint of a Ray cluster: {error}") from error

    def attach_or_submit(self, work: str, command: Sequence[str], *, is_done: Callable[[], bool]) -> Job:
        """Return the job that does `work`: the running one, the one that finished it, or else a new attempt.

        Args:
            work: name of the work; the submission ids are `<work>-1`, `<work>-2`, …
            command: the command that the job runs in the folder of the code.
            is_done: returns whether the result of a successful attempt still exists.
        """
        attempt = 1
        while True:
            job = Job(self, f"{work}-{attempt}")
            info = job.info()
            if info is None:
                if self._submit(job, command):
                    return job
                continue  # another flow submitted it first: look again
            if not info.status.is_terminal() or (info.status == "SUCCEEDED" and is_done()):
                logger.info("%s is %s at %s; following it", job.id, info.status.lower(), self.address)
                return job
            attempt += 1

    def _submit(self, job: Job, command: Sequence[str]) -> bool:
        try:
            # Ray wants one line for the shell, so every word is quoted.
            self.client.submit_job(
                entrypoint=shlex.join(command), submission_id=job.id, runtime_env=runtime_environment()
            )
        except RuntimeError as error:
            if "already exists" in str(error):
                return False
            raise UserError(f"{self.address} did not accept the job {job.id}: {error}") from error
        logger.info("Submitted %s to %s", job.id, self.address)
        return True


class Job:
    """One attempt at a piece of work."""

    def __init__(self, endpoint: JobEndpoint, identity: str) -> None:
        self.id = identity
        self._endpoint = endpoint

    def info(self) -> Any | None:
        """Return the endpoint's record of the job (Ray's `JobDetails`), or None if it has none."""
        try:
            return self._endpoint.client.get_job_info(self.id)
        except RuntimeError as error:
            if "status code 404" in str(error):
                return None
            raise

    def follow(self, log: CopiedLog, look: Callable[[], None]) -> Any:
        """Copy the job's log and call `look` about every second until the job has ended; returns its details.

        Raises:
            EndpointLostError: the endpoint did not answer for `PATIENCE_SECONDS`; the job may still be running.
        """
        follower = threading.Thread(target=self._copy_log, args=(log,), name=self.id, daemon=True)
        follower.start()
        heard = time.monotonic()
        while True:
            try:
                info = self.info()
                heard = time.monotonic()
            except (OSError, RuntimeError) as error:  # requests' own errors are OSErrors
                if time.monotonic() - heard > PATIENCE_SECONDS:
                    raise EndpointLostError(
                        f"{self._endpoint.address} does not answer ({error}). The job {self.id} may still be running: "
                        "run the same command again to follow it."
                    ) from error
                info = None
            look()
            if info is not None and info.status.is_terminal():
                follower.join(LOG_SECONDS)
                return info
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def stop(self) -> None:
        """Stop the job and wait until it has ended."""
        self._endpoint.client.stop_job(self.id)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            info = self.info()
            if info is None or info.status.is_terminal():
                logger.info("Stopped %s", self.id)
                return
            time.sleep(SECONDS_BETWEEN_LOOKS / 4)
        logger.warning("%s did not stop within %.0f s; check it at %s", self.id, STOP_SECONDS, self._endpoint.address)

    def _copy_log(self, log: CopiedLog) -> None:
        """Copy the log until it ends, in a thread of its own; after a lost connection, continue where it broke off."""
        while True:
            try:
                asyncio.run(self._tail(log))
                return
            except Exception as error:
                logger.debug("Lost the connection to the log of %s: %s", self.id, error)
                time.sleep(SECONDS_BETWEEN_LOOKS)
                try:
                    info = self.info()
                except (OSError, RuntimeError):
                    continue
                if info is None or info.status.is_terminal():
                    return

    async def _tail(self, log: CopiedLog) -> None:
        known = log.characters
        async for text in self._endpoint.client.tail_job_logs(self.id):
            log.write(text[known:])
            known = max(0, known - len(text))


def runtime_environment() -> dict[str, Any]:
    """Return Ray's description of a job's environment: its code, and variables that switch telemetry off."""
    variables = dict(PRIVACY_DEFAULTS)
    code = os.environ.get("YIWEN_CLUSTER_CODE")
    if code:
        return {"env_vars": variables | {"PYTHONPATH": code}}
    return {**uploaded_code(EXCLUDED), "env_vars": variables}


def _knock(address: str) -> None:
    """Check that the address answers; Ray's client would wait minutes for a host that does not."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"RAY_ADDRESS={address}: no job endpoint answers there ({error}). Start the cluster, or correct the "
            "address (the head node's dashboard, port 8265 by default), or unset RAY_ADDRESS to train on this machine."
        ) from error
