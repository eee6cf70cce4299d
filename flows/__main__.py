"""Entry point of the command line: `python -m flows` and `yiwen`. flows/cli/ holds the verbs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from infra.console.interruption import run_interruptibly
from infra.settings import store_root


def main() -> NoReturn:
    """Run the command line and exit with its status; Ctrl-C, SIGTERM and SIGHUP end it within seconds."""
    run_interruptibly(_run_command, farewell(sys.argv[1:]))


def _run_command() -> int:
    from flows import cli  # imported late: Ctrl-C is answered while modules load

    return cli.main()


def farewell(arguments: Sequence[str]) -> str:
    """Return the line for a run that is interrupted, with how to resume where that is possible."""
    verb = next((one for one in arguments if not one.startswith("-")), "")
    if verb != "run":
        return "Interrupted."
    return f"Interrupted. Finished work is kept in {store_root()}: run the same command again to resume."


if __name__ == "__main__":
    main()
