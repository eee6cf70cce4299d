"""Entry point of the command line: `python -m flows` and `yiwen`. flows/cli/ holds the verbs."""

from __future__ import annotations

import re
import shlex
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


# matches: "keep_raw=false", "--param=keep_raw=0"
# not: "keep_raw=true"
_NO_RAW_TEXT = re.compile(r"(?:^|=)keep_raw=(?:false|f|no|n|off|0)$", re.IGNORECASE)


def farewell(arguments: Sequence[str]) -> str:
    """Return the line for a run that is interrupted, with how to resume where that is possible."""
    verb = next((one for one in arguments if not one.startswith("-")), "")
    if verb != "run":
        return "Interrupted."
    home = store_root()
    resume = f"Interrupted. Finished work is kept in {home}: run the same command again to resume."
    if not any(_NO_RAW_TEXT.search(one) for one in arguments):
        return resume
    folders = [f"{home}/ingest", f"{home}/clean"]
    how = "the client of the storage" if "://" in home else f"rm -r {shlex.join(folders)}"
    return (
        f"{resume} Raw text is left in {' and '.join(folders)} until that finishes. To delete it now, with that of "
        f"other runs: {how}"
    )


if __name__ == "__main__":
    main()
