"""The training driver as a child process of ours, with a Ray of its own or on the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from infra.cluster.copied_log import CopiedLog
from infra.errors import UserError
from infra.settings import REPOSITORY
from infra.stage import ProgressListener
from tasks.training.driver import USER_ERROR_STATUS
from tasks.training.follow import RunFollower
from tasks.training.run_spec import RunSpec

SECONDS_TO_DRAIN = 10.0
"""For the last lines of a child that has ended; processes of Ray's that outlive it may hold its output open."""


def run_child(spec: RunSpec, log: Path, on_progress: ProgressListener) -> None:
    """Run the driver as a child that cannot outlive us, and follow it; its output goes to the file `log`.

    Raises:
        UserError: the driver told one.
        RuntimeError: it failed; the message holds its last lines.
    """
    copy = CopiedLog(log)
    child = subprocess.Popen(
        [sys.executable, "-m", "tasks.training.driver", spec.run_path, "--quiet", "--with-parent"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    reader = threading.Thread(target=_copy, args=(child, copy), daemon=True)
    reader.start()
    try:
        RunFollower(spec, on_progress).until(lambda: child.poll() is not None)
    finally:
        child.kill()
        child.wait()
        reader.join(SECONDS_TO_DRAIN)
        copy.close()
    if child.returncode != 0:
        what = f"Training stopped with exit code {child.returncode}"
        raise failure(what, child.returncode, copy.last_lines(), log)


def _copy(child: subprocess.Popen[str], log: CopiedLog) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        log.write(line)


def failure(what: str, status: int | None, lines: list[str], log: Path) -> Exception:
    """The error that a driver's exit status and last lines tell of."""
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if status == USER_ERROR_STATUS and told:
        return UserError(told[-1])
    shown = "\n".join(lines)
    return RuntimeError(f"{what}; run again to go on from the last checkpoint. The last lines of {log}:\n{shown}")
