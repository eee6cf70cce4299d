"""End of a program of long work: its exit status and last line, and the error that its launcher raises for them.

An error that the user can fix is exit status 2 and a last line such as `error: cluster.workers is 9, …`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from infra.errors import KilledError, UserError
from tasks.training.launch.work import LongWork

USER_ERROR_STATUS = 2
"""Exit status after an error that the user can fix."""

_MARK = "error: "


def report_user_error(error: Exception) -> int:
    """Write the message where the launcher reads it; returns the exit status."""
    print(f"{_MARK}{error}", file=sys.stderr, flush=True)
    return USER_ERROR_STATUS


def failure(work: LongWork, what: str, status: int | None, lines: list[str], log: Path) -> Exception:
    """Return the error to raise for a program that failed.

    Args:
        what: how the program ended, as the beginning of a sentence.
        status: its exit status; None if it had none.
        lines: the last lines of its output.
        log: where the rest of its output is.
    """
    errors = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    if status == USER_ERROR_STATUS and errors:
        return UserError(errors[-1])
    shown = "\n".join(lines)
    kind = KilledError if status in (-signal.SIGKILL, -signal.SIGTERM) else RuntimeError
    return kind(
        f"{what}. Run the same command again to resume {work.kind} from the last checkpoint. "
        f"The last lines of {log}:\n{shown}"
    )
