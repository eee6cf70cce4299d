"""The job endpoint of a Ray cluster (`RAY_ADDRESS=http://head:8265`) as a place that takes jobs.

The checkout is uploaded with the job, unless `YIWEN_CLUSTER_CODE` names a folder of the cluster's image that holds the
code. The packages of constraints.txt must be installed there.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from infra.cluster.jobs.site import JobState, TokenRefusedError
from infra.cluster.private_ray import read_access_again
from infra.errors import UserError
from infra.place import uploaded_code
from infra.settings import PRIVACY_DEFAULTS
from infra.uris import warn_of_plain_http

EXCLUDED = ["/artifacts", "/benchmarks", "/docs", "/tests"]
"""Folders of the checkout that no job needs, beside those that git ignores: /artifacts, but not infra/artifacts."""
FORWARDED = ("YIWEN_LIMITS", "YIWEN_LOG", "YIWEN_METRICS", "YIWEN_RUN", "YIWEN_WORKERS")
"""Settings of the flow that hold for its jobs too. None of them is a secret: Ray's dashboard shows them."""

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
SECONDS_BETWEEN_POLLS = 5.0
"""Time between two requests for the whole log, where it cannot be streamed."""

OF_THE_PROGRAM = frozenset({"JOB_ENTRYPOINT_COMMAND_ERROR", "JOB_ENTRYPOINT_COMMAND_START_ERROR"})
"""Ray's names of failures in which the job's own program ended."""
OF_THE_SETUP = frozenset({"RUNTIME_ENV_SETUP_FAILURE"})
"""Ray's names of failures that another attempt would meet again."""

T = TypeVar("T")


class _Client(JobSubmissionClient):
    """Ray's client without its endless waiting: during a week of training a head node may vanish."""

    def _do_request(self, *arguments: Any, **options: Any) -> Any:
        return super()._do_request(*arguments, timeout=REQUEST_SECONDS, **options)


class RayEndpoint:
    """Job endpoint of a cluster; satisfies `JobSite`.

    A token in the file of RAY_AUTH_TOKEN_PATH may be replaced while a job runs: it is read again where it is refused.

    Raises:
        UserError: nothing answers at the address, or the endpoint does not accept our token.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        _knock(address)
        if os.environ.get("RAY_AUTH_MODE") == "token":
            warn_of_plain_http(address, "The token of the Ray cluster")
        try:
            self._client = _Client(address)
        except AuthenticationError as error:
            raise self._refused() from error
        except (RuntimeError, OSError, ValueError) as error:
            raise UserError(f"{address} is not a usable job endpoint of a Ray cluster: {error}") from error

    def state(self, job: str) -> JobState | None:
        """Return the state of a job, or None if the cluster has none of this id."""
        try:
            info = self._asked(lambda: self._client.get_job_info(job))
        except RuntimeError as error:
            if "status code 404" in str(error):
                return None
            raise
        kind = getattr(info.error_type, "value", info.error_type)  # newer servers name kinds that this client lacks
        lost = info.driver_exit_code is None and kind not in OF_THE_PROGRAM | OF_THE_SETUP
        return JobState(
            status=info.status.value,
            message=info.message or "",
            exit_status=info.driver_exit_code,
            is_of_the_cluster=info.status == "FAILED" and lost,
        )

    def submit(self, job: str, command: Sequence[str]) -> bool:
        """Submit a command; returns False if the id is taken."""
        try:
            # Ray wants one line for the shell, so every word is quoted.
            self._asked(
                lambda: self._client.submit_job(
                    entrypoint=shlex.join(command), submission_id=job, runtime_env=runtime_environment()
                )
            )
        except RuntimeError as error:
            if "already exists" in str(error):
                return False
            raise UserError(f"{self.address} did not accept the job {job}: {error}") from error
        return True

    def stop(self, job: str) -> None:
        """Ask for the end of a job."""
        self._asked(lambda: self._client.stop_job(job))

    def log(self, job: str) -> Iterator[str]:
        """Yield the output of a job from its beginning, until it ends."""
        try:
            yield from self._tail(job)
        except aiohttp.WSServerHandshakeError:  # a proxy on the way knows no WebSockets
            yield from self._polled(job)

    def _polled(self, job: str) -> Iterator[str]:
        known = 0
        while True:
            state = self.state(job)
            text = self._asked(lambda: self._client.get_job_logs(job))
            yield text[known:]
            known = len(text)
            if state is None or state.is_over:
                return
            time.sleep(SECONDS_BETWEEN_POLLS)

    def _tail(self, job: str) -> Iterator[str]:
        loop = asyncio.new_event_loop()
        stream: AsyncIterator[str] = aiter(self._client.tail_job_logs(job))
        try:
            while True:
                yield loop.run_until_complete(anext(stream))
        except StopAsyncIteration:
            return
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def nodes(self) -> Sequence[Mapping[str, float]] | None:
        """Return the resources of the nodes that live now. An autoscaler may add others."""
        answer = self._asked(lambda: self._client._do_request("GET", "/api/v0/nodes?detail=true&limit=10000"))
        found = answer.json()["data"]["result"]["result"]
        return [node["resources_total"] for node in found if node["state"] == "ALIVE"]

    def _asked(self, ask: Callable[[], T]) -> T:
        """Return the answer to a request; with the token of this moment if the one of the beginning is refused."""
        try:
            return ask()
        except AuthenticationError:
            read_access_again()
            try:
                self._client = _Client(self.address)
                return ask()
            except AuthenticationError as error:
                raise self._refused() from error

    def _refused(self) -> TokenRefusedError:
        return TokenRefusedError(
            f"The cluster at {self.address} asks for a token that was missing, wrong or has expired. Set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH, a file) to the cluster's token, or "
            "RAY_AUTH_MODE=disabled if it has none."
        )


def runtime_environment() -> dict[str, Any]:
    """Return Ray's description of a job's environment: its code, and variables that hold no secret."""
    variables = PRIVACY_DEFAULTS | {name: os.environ[name] for name in FORWARDED if os.environ.get(name)}
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
            "address (the head node's dashboard, port 8265 by default), or unset RAY_ADDRESS to work on this machine."
        ) from error
