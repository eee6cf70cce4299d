"""`infra/down`: end the local stack: the processes that `infra/up` started, by id, and nothing else. Data stay."""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
from pathlib import Path

from infra.errors import UserError
from infra.stack.processes import ProcessFile, end, left_behind
from infra.stack.services import SERVICES
from infra.stack.up import ELASTICSEARCH, stack_folder


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="infra/down", description=__doc__)
    parser.add_argument("--folder", help="folder of the stack, by default YIWEN_STACK, or .stack of the checkout")
    try:
        print(down(stack_folder(parser.parse_args(arguments).folder)))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def down(folder: Path) -> str:
    """End what runs; returns what was ended. Without a stack nothing happens, and nothing is written.

    Raises:
        UserError: Elasticsearch does not end.
    """
    if not (folder / "processes.json").is_file():  # any other folder may have a file `lock` of its own
        return "There is no stack."
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = ProcessFile(folder / "processes.json")
        known = file.read()
        order = [service.name for service in reversed(SERVICES) if service.name in known]
        ended = [name for name in order if known[name].is_alive]
        for name in order:  # a worker is to end before the server that it reports to
            end([known[name], *left_behind(known[name])])
        file.write({})
        if (folder / "elasticsearch").is_dir():
            _stop_elasticsearch(folder / "elasticsearch")
    return f"Ended {', '.join(ended)}." if ended else "Nothing was running."


def _stop_elasticsearch(folder: Path) -> None:
    command = [str(ELASTICSEARCH / "stop.sh"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"Elasticsearch did not end: {done.stderr.strip()[-500:] or f'exit status {done.returncode}'}. All else "
            f"has ended. Look at {folder}, and run infra/down again."
        )


if __name__ == "__main__":
    sys.exit(main())
