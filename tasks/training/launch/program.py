"""Command line of a program of long work: `python -m MODULE run.json [--quiet] [--with-parent]`. No Prefect in it."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from infra.artifacts import store_explained
from infra.console.progress import StageProgress
from infra.disk.private_files import private_files
from infra.errors import UserError
from tasks.training.launch.ending import report_user_error
from tasks.training.launch.follow import followed
from tasks.training.launch.work import LongWork

W = TypeVar("W", bound=LongWork)


@private_files()
def run_program(kind: type[W], do: Callable[[W], None], description: str | None, arguments: list[str] | None) -> int:
    """Parse the command line, do the work that it names, and return the exit status.

    Args:
        kind: the work that `run.json` describes.
        do: does it, resuming where an earlier attempt stopped, and writes `result.json`.
        description: shown by --help.
        arguments: of the command line; None: those of this process.

    Raises:
        RuntimeError: `do` returned, but left no result.
    """
    options = _parser(kind, description).parse_args(arguments)
    if options.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with store_explained(options.run):
            work = kind.read(options.run)
            if options.quiet:
                do(work)
            else:
                with StageProgress(kind.kind, unit=work.unit) as progress, followed(work, progress.update):
                    do(work)
    except (UserError, FloatingPointError) as error:  # a loss of NaN is no defect of ours: the message has the remedy
        return report_user_error(error)
    if not work.is_done():
        raise RuntimeError(f"{kind.kind} of run {work.name} ended without a result")
    return 0


def _parser(kind: type[LongWork], description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {kind.module}", description=description)
    parser.add_argument("run", metavar="run.json", help="path or URI of the run, as its stage writes it")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    parser.add_argument(
        "--with-parent", action="store_true", help="end when standard input is closed, because the parent has ended"
    )
    return parser


def _end_with_parent() -> None:
    # The parent holds the other end of our standard input and never writes: end of file means that it has ended.
    # We read below Python's buffers, because a thread that waits there holds their lock when the process exits.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)
