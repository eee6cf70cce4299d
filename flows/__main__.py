"""Entry point of the command line: `python -m flows`. flows/cli/ holds the commands."""

from __future__ import annotations

import sys

from infra.interruption import run_interruptibly
from infra.settings import store_root


def run_command() -> int:
    """Run the command line. Imported here, so that Ctrl-C is answered while modules load."""
    from flows.cli import main

    return main()


def farewell(command: str) -> str:
    """Return the line for a run that is interrupted, with how to resume where that is possible."""
    if command != "run":
        return "Interrupted."
    return f"Interrupted. Finished work is kept in {store_root()}: run the same command again to resume."


if __name__ == "__main__":
    run_interruptibly(run_command, farewell(*sys.argv[1:2] or [""]))
