"""Long work as a job on a Ray cluster: submitted or found running, followed, and stopped when its flow is cancelled."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from infra.cluster.copied_log import CopiedLog
from infra.cluster.jobs import EndpointLostError, Job, JobEndpoint
from infra.stage import ProgressListener
from tasks.training.launch.ending import failure
from tasks.training.launch.follow import RunFollower
from tasks.training.launch.work import LongWork


def run_job(work: LongWork, address: str, log: Path, on_progress: ProgressListener) -> None:
    """Have the cluster behind a job endpoint do the work, and follow it; the job's output goes to `log`.

    A flow that is interrupted or cancelled stops its job. A flow that is killed leaves its job running, and the next
    flow follows that job. `YIWEN_CLUSTER_PYTHON` names the cluster's interpreter; by default it is `python`.

    Raises:
        UserError: the endpoint cannot be used, or the program reported one.
        EndpointLostError: the endpoint fell silent.
        RuntimeError: the job failed; the message has its last lines.
    """
    endpoint = JobEndpoint(address)
    python = os.environ.get("YIWEN_CLUSTER_PYTHON") or "python"
    command = [python, "-m", work.module, work.run_path, "--quiet"]
    job = endpoint.attach_or_submit(_submission_name(work), command, is_done=work.is_done)
    _follow(job, work, log, on_progress)


def _follow(job: Job, work: LongWork, log: Path, on_progress: ProgressListener) -> None:
    copy = CopiedLog(log)
    try:
        info = job.follow(copy, RunFollower(work, on_progress).look)
    except EndpointLostError:  # the job may be fine: the next flow finds it
        raise
    except BaseException:  # Ctrl-C, or Prefect's cancellation, which is no Exception either
        job.stop()
        raise
    finally:
        copy.close()
    if info.status != "SUCCEEDED":
        what = f"The job {job.id} is {info.status.lower()} ({info.message.splitlines()[0]})"
        raise failure(work, what, info.driver_exit_code, copy.last_lines(), log)


def _submission_name(work: LongWork) -> str:
    """Return a name for what is done and where its result goes, such as `train-<fingerprint>-1f0c2a9b`."""
    place = hashlib.sha256(work.storage.encode()).hexdigest()[:8]
    return f"{work.kind}-{work.name}-{place}"
