"""`infra/down`: end the local stack: the processes that `infra/up` started, by id, and nothing else. Data stay."""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
from pathlib import Path

from infra.stack.processes import ProcessFile, end
from infra.stack.services import SERVICES
from infra.stack.up import ELASTICSEARCH, stack_folder


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="infra/down", description=__doc__)
    parser.add_argument("--folder", help="folder of the stack, by default YIWEN_STACK, or .stack of the checkout")
    print(down(stack_folder(parser.parse_args(arguments).folder)))
    return 0


def down(folder: Path) -> str:
    """End what runs; returns what was ended. Without a stack nothing happens."""
    if not folder.is_dir():
        return "There is no stack."
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = ProcessFile(folder / "processes.json")
        known = file.read()
        order = [service.name for service in reversed(SERVICES) if service.name in known]
        ended = [name for name in order if known[name].is_alive]
        for name in order:  # a worker is to end before the server that it reports to
            end([known[name]])
        file.write({})
        if (folder / "elasticsearch").is_dir():
            subprocess.run([str(ELASTICSEARCH / "stop.sh"), str(folder / "elasticsearch")], check=True)
    return f"Ended {', '.join(ended)}." if ended else "Nothing was running."


if __name__ == "__main__":
    sys.exit(main())
