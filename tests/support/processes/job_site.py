"""A place of jobs in this process: it runs the program of a job at once, or says what a test wants it to say."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

from infra.cluster.jobs.program import main
from infra.cluster.jobs.site import JobState


class SiteInProcess:
    """Runs each job in `submit`; `scripted` states are given to the first attempts instead, with nothing done."""

    address = "http://in-process"

    def __init__(self, scripted: Sequence[JobState] = (), nodes: Sequence[Mapping[str, float]] = ()) -> None:
        self.states: dict[str, JobState] = {}
        self.logs: dict[str, str] = {}
        self.commands: list[list[str]] = []
        self.stopped: list[str] = []
        self.before_state: Callable[[], None] = lambda: None
        self._scripted = list(scripted)
        self._nodes = nodes

    def state(self, job: str) -> JobState | None:
        self.before_state()
        return self.states.get(job)

    def submit(self, job: str, command: Sequence[str]) -> bool:
        self.commands.append(list(command))
        if self._scripted:
            self.states[job] = self._scripted.pop(0)
            self.logs[job] = ""
            return True
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = main(list(command[3:]))
            except Exception:
                traceback.print_exc(file=said)
                status = 1
        self.states[job] = JobState("SUCCEEDED" if status == 0 else "FAILED", f"exit code {status}", status)
        self.logs[job] = said.getvalue()
        return True

    def stop(self, job: str) -> None:
        self.stopped.append(job)
        self.states[job] = JobState("STOPPED")

    def log(self, job: str) -> Iterator[str]:
        yield self.logs[job]

    def nodes(self) -> Sequence[Mapping[str, float]] | None:
        return self._nodes
