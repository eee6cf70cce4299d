"""The program of every job: `python -m infra.cluster.jobs.program run.json`. No Prefect in it.

It runs the stage that run.json describes, with the workers of the cluster that the job is on, and writes the artifact
into the store that both sides see. Parts that an earlier attempt finished are reused. Its exit status says whose fault
a failure is:

    0   the artifact is there
    1   a defect of the stage: a traceback in the log
    2   an error that the user can fix: a last line `error: …`
    75  the cluster failed under it, as when a node was lost: the same job may succeed when it is submitted again
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import sys
import time

from infra import stage as stages
from infra.artifacts import ArtifactStore, open_for_writing
from infra.cluster import copied_log
from infra.cluster.executor import executor_for
from infra.cluster.jobs.description import StageRun
from infra.console.progress import BestEffort, shown_log
from infra.disk.private_files import private_files
from infra.errors import KilledError, StoreLostError, UserError
from infra.settings import JOB_VARIABLE, Settings, apply_defaults

USER_ERROR = 2
CLUSTER_FAILED = 75
"""Exit status after a failure of the cluster: EX_TEMPFAIL of sysexits.h."""
MARK = "error: "
"""Beginning of the line, the last of the log, in which the program reports a user's error."""
PROGRESS = "progress.json"
SECONDS_BETWEEN_REPORTS = 1.0


class ReportedProgress:
    """Progress of the stage, written beside `run.json` for the flow to read."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._written = -SECONDS_BETWEEN_REPORTS
        self._best_effort = BestEffort("The progress of the job")

    def __call__(self, name: str, done: int, total: int, note: str = "") -> None:
        """Write the newest figures, at most once a second, and always the last."""
        if done != total and time.monotonic() - self._written < SECONDS_BETWEEN_REPORTS:
            return
        with self._best_effort, open_for_writing(self._place) as file:
            file.write(json.dumps({"name": name, "done": done, "total": total, "note": note}).encode())
        self._written = time.monotonic()


@private_files()
def main(arguments: list[str] | None = None) -> int:
    """Run the command line of a job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.cluster.jobs.program", description=__doc__)
    parser.add_argument("run", metavar="run.json", help="path or URI of the stage to run, as a flow writes it")
    options = parser.parse_args(arguments)
    apply_defaults()
    # What a training process of this stage prints belongs into the job's log, which the flow copies.
    logging.getLogger(copied_log.__name__).setLevel(logging.INFO)
    try:
        with shown_log():
            _run(StageRun.read(options.run))
    except StoreLostError as error:  # another attempt may find it back
        print(f"The cluster failed: {error}", file=sys.stderr, flush=True)
        return CLUSTER_FAILED
    except (UserError, FloatingPointError) as error:  # a loss of NaN is no defect of ours: the message has the remedy
        print(f"{MARK}{error}", file=sys.stderr, flush=True)
        return USER_ERROR
    except Exception as error:
        if not is_of_the_cluster(error):
            raise
        print(f"The cluster failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return CLUSTER_FAILED
    return 0


def _run(described: StageRun) -> None:
    work, params, inputs = described.opened()
    with executor_for(_cluster_settings()) as executor:
        stages.run(
            work,
            ArtifactStore(described.store),
            params,
            inputs,
            executor=executor,
            on_progress=ReportedProgress(described.place(PROGRESS)),
        )


def _cluster_settings() -> Settings:
    """Return the settings of this process, with a worker for each core of the cluster unless YIWEN_WORKERS is set."""
    settings = Settings.from_environment()
    if JOB_VARIABLE not in os.environ or os.environ.get("YIWEN_WORKERS"):
        return settings
    from infra.cluster.session import nodes, start_ray

    start_ray(settings.workers, settings.ray_address)
    cores = int(sum(node.get("CPU", 0.0) for node in nodes()))
    return dataclasses.replace(settings, workers=max(1, cores))


def is_of_the_cluster(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is a failure of the cluster and not of the stage."""
    while error is not None:
        if isinstance(error, ConnectionError | KilledError) or _is_of_ray(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_ray(error: BaseException) -> bool:
    if "ray" not in sys.modules:
        return False
    from ray import exceptions

    lost = (
        exceptions.NodeDiedError,
        exceptions.LocalRayletDiedError,
        exceptions.ObjectLostError,
        exceptions.RaySystemError,
        exceptions.WorkerCrashedError,
    )
    return isinstance(error, lost)


if __name__ == "__main__":
    sys.exit(main())
