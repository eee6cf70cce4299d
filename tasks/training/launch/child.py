"""Long work in a child process on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from infra.cluster.copied_log import CopiedLog
from infra.console.interruption import say_below
from infra.place import IMPORTED_FROM
from infra.stage import ProgressListener
from tasks.training.launch.ending import failure
from tasks.training.launch.follow import RunFollower
from tasks.training.launch.work import LongWork

SECONDS_TO_DRAIN = 10.0
"""Patience with the last lines of a child that has ended. Processes that Ray leaves behind may hold its output open."""


def run_child(work: LongWork, log: Path, on_progress: ProgressListener) -> None:
    """Run the work's program as a child that cannot outlive this process, and follow it; its output goes to `log`.

    Raises:
        UserError: the program reported one.
        RuntimeError: the program failed; the message has its last lines.
        KilledError: one kind of RuntimeError: the program was killed from outside.
    """
    copy = CopiedLog(log)
    child = subprocess.Popen(
        [sys.executable, "-m", work.module, work.run_path, "--quiet", "--with-parent"],
        cwd=IMPORTED_FROM,
        stdin=subprocess.PIPE,  # held open for as long as we live: --with-parent waits for its end
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": str(IMPORTED_FROM)},
    )
    reader = threading.Thread(target=_copy, args=(child, copy), daemon=True)
    reader.start()
    try:
        RunFollower(work, on_progress).until(lambda: child.poll() is not None)
    except (KeyboardInterrupt, SystemExit):
        # First of all: the guard of the run leaves two seconds after the signal.
        with contextlib.suppress(Exception):
            say_below(work.interruption_note())
        raise
    finally:  # after Ctrl-C or Prefect's cancellation too
        child.kill()
        child.wait()
        reader.join(SECONDS_TO_DRAIN)
        copy.close()
    if child.returncode != 0:
        what = f"The process of {work.kind} ended with exit status {child.returncode}"
        raise failure(work, what, child.returncode, copy.last_lines(), log)


def _copy(child: subprocess.Popen[str], log: CopiedLog) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        log.write(line)
