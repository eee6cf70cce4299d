"""The flow's side of a job: submitted or found running, followed, stopped with its flow, and tried again.

A job's id names its work, the place of the store and the attempt: `clean-<fingerprint>-1f0c2a9b-1`. So the same
command, run again, finds the running job and follows it, and another attempt starts only after the last one ended.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import posixpath
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.cluster.copied_log import CopiedLog
from infra.cluster.jobs.description import StageRun, own_code
from infra.cluster.jobs.program import CLUSTER_FAILED, MARK, PROGRESS, USER_ERROR
from infra.cluster.jobs.site import EndpointLostError, JobSite, JobState, TokenRefusedError
from infra.console.progress import BestEffort
from infra.disk.private_files import private_files
from infra.errors import UserError
from infra.place import module_name
from infra.stage import ProgressListener, Stage, StageInput, StageParams, StageResult

logger = logging.getLogger(__name__)

PROGRAM = module_name("infra/cluster/jobs/program.py")
ATTEMPTS = 3
"""Attempts of one flow at a stage whose jobs fail through no fault of their own. Finished parts are kept."""
SECONDS_BETWEEN_LOOKS = 1.0
PATIENCE_SECONDS = 300.0
"""Time without an answer from the place of jobs after which a running job is no longer followed."""
STOP_SECONDS = 60.0
LOG_SECONDS = 10.0
"""Time for the last lines of a job to arrive after it has ended."""
KILLED = frozenset({-9, -15, 137, 143})
"""Exit statuses of a program that was killed from outside: memory ran out on its node, or the node was drained."""


@private_files()
def run_as_job(
    work: Stage[Any],
    store: ArtifactStore,
    params: StageParams,
    inputs: Mapping[str, StageInput],
    *,
    site: JobSite,
    on_progress: ProgressListener,
) -> StageResult:
    """Have a stage run as a job, or find its artifact; as `infra.stage.run` does on this machine.

    A flow that is interrupted or cancelled stops its job. A flow that is killed leaves its job running, and the next
    flow follows that job. A job that failed through the cluster's fault is submitted again, `ATTEMPTS` times in all.
    `YIWEN_CLUSTER_PYTHON` names the cluster's interpreter; by default it is `python`.

    Raises:
        UserError: the job reported one, the place does not take jobs, or the store cannot be written.
        EndpointLostError: the place fell silent; the job may still be running.
        RuntimeError: the stage failed; the message has its last lines.
    """
    found = store.get(work.name, work.fingerprint(params, inputs))
    if found is not None:
        return StageResult(found, reused=True)
    described = StageRun.of(work, store, params, inputs)
    for left in range(ATTEMPTS - 1, -1, -1):
        job = _attach_or_submit(site, described, store)
        state, log = _followed(site, job, described, store, on_progress)
        if state.status == "SUCCEEDED":
            return StageResult(_finished(described, store, site), reused=False)
        if not _is_worth_another(state) or not left:
            raise _failure(described, job, state, log)
        logger.warning("%s failed through the cluster: %s. Submitting it again.", job, state.message or state.status)
    raise AssertionError("the last attempt returns or raises")


def _attach_or_submit(site: JobSite, described: StageRun, store: ArtifactStore) -> str:
    """Return the id of the job that does the work: the running one, or a new attempt."""
    name, attempt = submission_name(described), 1
    while True:
        job = f"{name}-{attempt}"
        state = site.state(job)
        if state is None:
            described.write(store)
            python = os.environ.get("YIWEN_CLUSTER_PYTHON") or "python"
            if site.submit(job, [python, "-m", PROGRAM, described.place("run.json")]):
                logger.info("Submitted %s to %s", job, site.address)
                return job
            continue  # another flow submitted it first: look again
        if not state.is_over:
            logger.info("%s is %s at %s; following it", job, state.status.lower(), site.address)
            _compare_code(described, store)
            return job
        attempt += 1


def submission_name(described: StageRun) -> str:
    """Return a name for what is done and where its result goes, such as `train-<fingerprint>-1f0c2a9b`."""
    place = hashlib.sha256(described.store.encode()).hexdigest()[:8]
    return f"{described.name}-{described.fingerprint}-{place}"


def _compare_code(described: StageRun, store: ArtifactStore) -> None:
    """Warn if the running job was submitted by another version of the code; it is the same work by its fingerprint."""
    try:
        theirs = json.loads(store.filesystem.cat_file(store.absolute(f"{described.folder}/run.json")))["code"]
    except (OSError, ValueError, KeyError):
        return
    if theirs["digest"] != own_code().digest:
        logger.warning(
            "That job was submitted by version %s (code %s), and this is %s. It is followed to its end; to run this "
            "version instead, cancel the flow and run it again.",
            theirs["name"],
            theirs["digest"],
            own_code(),
        )


def _followed(
    site: JobSite, job: str, described: StageRun, store: ArtifactStore, on_progress: ProgressListener
) -> tuple[JobState, CopiedLog]:
    """Follow a job to its end; stop it if this flow is interrupted."""
    log = CopiedLog(_log_file(described, store))
    try:
        return _follow(site, job, log, _ReadProgress(described, store, on_progress)), log
    except Exception:  # a lost endpoint, a garbled answer: the job may be fine, and the next flow finds it
        raise
    except BaseException:  # Ctrl-C, or Prefect's cancellation, which is no Exception
        _stop(site, job)
        raise
    finally:
        log.close()


def _follow(site: JobSite, job: str, log: CopiedLog, look: Callable[[], None]) -> JobState:
    follower = threading.Thread(target=_copy_log, args=(site, job, log), name=job, daemon=True)
    follower.start()
    heard = seen = time.monotonic()
    while True:
        state = None
        try:
            state = site.state(job)
            heard = time.monotonic()
            if state is not None:
                seen = heard
        except TokenRefusedError as error:
            raise TokenRefusedError(
                f"{error} The job {job} goes on: run the same command again with a valid token to follow it."
            ) from error
        # Errors of requests are OSErrors; a proxy may cut an answer short, or answer in place of the endpoint.
        except (OSError, RuntimeError, ValueError, http.client.HTTPException) as error:
            if time.monotonic() - heard > PATIENCE_SECONDS:
                raise EndpointLostError(
                    f"{site.address} does not answer ({error}). The job {job} may still be running: run the same "
                    "command again to follow it."
                ) from error
        if heard - seen > PATIENCE_SECONDS:
            raise EndpointLostError(
                f"{site.address} knows no job {job} any more: it was deleted, or the cluster began anew. Run the same "
                "command again to submit it."
            )
        look()
        if state is not None and state.is_over:
            follower.join(LOG_SECONDS)
            look()
            return state
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _copy_log(site: JobSite, job: str, log: CopiedLog) -> None:
    """Copy the log until it ends, in a thread of its own; after a lost connection, continue where it broke off."""
    while True:
        known = log.characters
        try:
            for text in site.log(job):
                log.write(text[known:])
                known = max(0, known - len(text))
            return
        except Exception as error:
            logger.debug("Lost the connection to the log of %s: %s", job, error)
            time.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                state = site.state(job)
            except (OSError, RuntimeError):  # a refused token is a UserError, which is neither
                continue
            except UserError:
                return
            if state is None or state.is_over:
                return


def _stop(site: JobSite, job: str) -> None:
    site.stop(job)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        state = site.state(job)
        if state is None or state.is_over:
            logger.info("Stopped %s", job)
            return
        time.sleep(SECONDS_BETWEEN_LOOKS / 4)
    logger.warning("%s did not stop within %.0f s; check it at %s", job, STOP_SECONDS, site.address)


class _ReadProgress:
    """Reports what the job has written about its progress since the last look."""

    def __init__(self, described: StageRun, store: ArtifactStore, on_progress: ProgressListener) -> None:
        self._path = store.absolute(posixpath.join(described.folder, PROGRESS))
        self._store = store
        self._on_progress = on_progress
        self._seen = b""
        self._best_effort = BestEffort(f"The progress of {described.name}")

    def __call__(self) -> None:
        """Look once; failures are logged and never raised."""
        with self._best_effort:
            self._store.filesystem.invalidate_cache()  # another machine writes the file
            try:
                content = self._store.filesystem.cat_file(self._path)
                news = json.loads(content)
            except (FileNotFoundError, json.JSONDecodeError):  # not yet there, or being written
                return
            if content != self._seen:
                self._seen = content
                self._on_progress(news["name"], news["done"], news["total"], news["note"])


def _log_file(described: StageRun, store: ArtifactStore) -> Path:
    if not store.is_local:
        return Path(tempfile.mkdtemp(prefix="yiwen-job-")) / "job.log"
    folder = Path(store.absolute(described.folder))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "job.log"


def _finished(described: StageRun, store: ArtifactStore, site: JobSite) -> Artifact:
    """Return the artifact that the job made, and remove the job's files."""
    store.filesystem.invalidate_cache()
    found = store.get(described.name, described.fingerprint)
    if found is None:
        raise UserError(
            f"The job of {described.name} at {site.address} succeeded, but {store.root} has no artifact "
            f"{described.name}/{described.fingerprint}. The nodes see another folder under this path: put YIWEN_HOME "
            "on a disk that they share with this machine, or give a URI such as s3://…."
        )
    with BestEffort(f"The end of the job of {described.name}"):
        store.filesystem.rm(store.absolute(described.folder), recursive=True)
    return found


def _is_worth_another(state: JobState) -> bool:
    """Return whether a job failed through the cluster's fault, so that another attempt may succeed."""
    if state.status != "FAILED":
        return False  # stopped by hand
    return state.is_of_the_cluster or state.exit_status == CLUSTER_FAILED or state.exit_status in KILLED


def _failure(described: StageRun, job: str, state: JobState, log: CopiedLog) -> Exception:
    """Return the error to raise for a job that failed."""
    lines = log.last_lines()
    marked = [number for number, line in enumerate(lines) if line.startswith(MARK)]
    if state.exit_status == USER_ERROR and marked:
        # A message may have several lines, and it is the last thing that the program says.
        return UserError("\n".join(lines[marked[-1] :]).removeprefix(MARK))
    first = next(iter(state.message.splitlines()), "no reason is given")
    shown = "\n".join(lines)
    return RuntimeError(
        f"The job {job} is {state.status.lower()} ({first}). Run the same command again to resume {described.name}: "
        f"finished parts and checkpoints are kept. The last lines of {log.path}:\n{shown}"
    )
