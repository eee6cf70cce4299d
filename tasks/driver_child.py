"""The training driver as a child process of ours, with a Ray of its own or on the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from infra.errors import UserError
from infra.ray_jobs import LINES_SHOWN
from infra.settings import REPOSITORY
from infra.stage import ProgressListener
from tasks.driver import USER_ERROR_STATUS
from tasks.follow import RunFollower
from tasks.run_spec import RunSpec


def run_child(spec: RunSpec, log: Path, on_progress: ProgressListener) -> None:
    """Run the driver as a child that cannot outlive us, and follow it; its output goes to the file `log`.

    Raises:
        UserError: the driver told one.
        RuntimeError: it failed; the message holds its last lines.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "tasks.driver", spec.run_path, "--quiet", "--with-parent"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        try:
            RunFollower(spec, on_progress).until(lambda: child.poll() is not None)
        finally:
            child.kill()
            child.wait()
    if child.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES_SHOWN:]
        raise failure(f"Training stopped with exit code {child.returncode}", child.returncode, lines, log)


def failure(what: str, status: int | None, lines: list[str], log: Path) -> Exception:
    """The error that a driver's exit status and last lines tell of."""
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if status == USER_ERROR_STATUS and told:
        return UserError(told[-1])
    shown = "\n".join(lines)
    return RuntimeError(f"{what}; run again to go on from the last checkpoint. The last lines of {log}:\n{shown}")
