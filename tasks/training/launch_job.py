"""The training driver as a job on a Ray cluster: submitted or found running, followed, and stopped with the flow."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from infra.cluster.copied_log import CopiedLog
from infra.cluster.jobs import EndpointLostError, Job, JobEndpoint
from infra.stage import ProgressListener
from tasks.training.follow import RunFollower
from tasks.training.launch_child import failure
from tasks.training.run_spec import RunSpec


def run_job(spec: RunSpec, address: str, log: Path, on_progress: ProgressListener) -> None:
    """Have the cluster behind a job endpoint do the run, and follow it; the job's output goes to the file `log`.

    A run that is interrupted or cancelled stops its job; one that is killed leaves it, and the next one follows it.

    Raises:
        UserError: the endpoint cannot be used, or the driver told one.
        EndpointLostError: the endpoint fell silent.
        RuntimeError: the job failed; the message holds its last lines.
    """
    endpoint = JobEndpoint(address)
    python = os.environ.get("YIWEN_CLUSTER_PYTHON") or "python"
    command = [python, "-m", "tasks.training.driver", spec.run_path, "--quiet"]
    job = endpoint.attach_or_submit(_work(spec), command, is_done=lambda: spec.result() is not None)
    _follow(job, spec, log, on_progress)


def _follow(job: Job, spec: RunSpec, log: Path, on_progress: ProgressListener) -> None:
    copy = CopiedLog(log)
    try:
        info = job.follow(copy, RunFollower(spec, on_progress).look)
    except EndpointLostError:
        raise
    except BaseException:  # Ctrl-C, or Prefect's cancellation, which is no Exception either
        job.stop()
        raise
    finally:
        copy.close()
    if info.status != "SUCCEEDED":
        what = f"The job {job.id} is {info.status.lower()} ({info.message.splitlines()[0]})"
        raise failure(what, info.driver_exit_code, copy.last_lines(), log)


def _work(spec: RunSpec) -> str:
    """Names the work in the cluster: what is done, and where its result goes."""
    place = hashlib.sha256(spec.storage.encode()).hexdigest()[:8]
    return f"train-{spec.name}-{place}"
