"""What a place that takes jobs can do, and the state of a job: the same for Ray's endpoint and for KubeRay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from infra.errors import UserError

Status = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]


class EndpointLostError(RuntimeError):
    """The place no longer answers, or no longer accepts our token. The job may still be running."""


class TokenRefusedError(UserError):
    """The place does not accept our token, or wants one that we do not have."""


@dataclass(frozen=True)
class JobState:
    """State of a job, as its place reports it."""

    status: Status
    message: str = ""
    """What the place says about it, such as why it failed."""
    exit_status: int | None = None
    """Exit status of its program; None: it has none yet, or ended without one."""
    is_of_the_cluster: bool = False
    """The job failed through no fault of its program: its node was lost, or its supervisor died."""

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED")


class JobSite(Protocol):
    """A place that takes jobs. A job outlives the process that submitted it; its id names its work and attempt.

    Any method may raise `TokenRefusedError`, and OSError or RuntimeError while the place does not answer.
    """

    address: str

    def state(self, job: str) -> JobState | None:
        """Return the state of a job, or None if the place has never had it."""

    def submit(self, job: str, command: Sequence[str]) -> bool:
        """Have a command run under an id; returns False if another flow was faster.

        Raises:
            UserError: the place does not accept the job.
        """

    def stop(self, job: str) -> None:
        """Ask for the end of a job."""

    def log(self, job: str) -> Iterator[str]:
        """Yield the output of a job from its beginning, until it ends."""

    def nodes(self) -> Sequence[Mapping[str, float]] | None:
        """Return the resources of each node by Ray's names; None: the nodes come with the job, or on demand."""
