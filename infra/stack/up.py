"""`infra/up`: start the local stack, or what is missing of it.

Prefect's server (SQLite), a Ray head with a job endpoint, and a worker with all deployments registered; Elasticsearch
where it was assembled before, or with --elasticsearch. All listen on loopback and ask for a password or token, which
is random and in files that only this user can read. What it prints last makes a shell use the stack.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from infra.disk.private_files import private_files
from infra.errors import UserError
from infra.place import FOLDER, INSTALLED
from infra.stack.processes import Process, ProcessFile, end, process
from infra.stack.services import (
    BIN,
    POOL,
    SERVICES,
    Ports,
    Stack,
    known_ports,
    refuse_taken_port,
    start,
    wait_for,
    worker_environment,
    write_ports,
)

FOLDER_OF_STACK = ".stack"
ELASTICSEARCH = FOLDER / "infra" / "elasticsearch"


def stack_folder(given: str | None) -> Path:
    """Return the folder of the stack: given, `YIWEN_STACK`, or `.stack` of the checkout."""
    return Path(given or os.environ.get("YIWEN_STACK") or FOLDER / FOLDER_OF_STACK).absolute()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="infra/up", description=__doc__)
    parser.add_argument("--folder", help="folder of the stack, by default YIWEN_STACK, or .stack of the checkout")
    usual = "default: that of the stack's last start, or"
    parser.add_argument("--prefect-port", type=int, help=f"{usual} {Ports.prefect}")
    parser.add_argument("--ray-port", type=int, help=f"job endpoint; {usual} {Ports.ray}")
    parser.add_argument("--elasticsearch", action="store_true", help="assemble Elasticsearch if it was not yet (Java)")
    options = parser.parse_args(arguments)
    try:
        folder = stack_folder(options.folder)
        known = known_ports(folder)
        ports = Ports(options.prefect_port or known.prefect, options.ray_port or known.ray)
        print(up(folder, ports, options.elasticsearch))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


@private_files()
def up(folder: Path, ports: Ports, elasticsearch: bool = False) -> str:
    """Start what does not run; returns what the user is to know.

    Raises:
        UserError: a port is taken, a server runs on another port, or a server does not start. What this call started
            is ended again.
    """
    if INSTALLED:
        raise UserError("infra/up registers the deployments of a checkout; clone the repository and run it there.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stack, file = Stack(folder, ports), ProcessFile(folder / "processes.json")
        known = file.read()
        running = {name: one for name, one in known.items() if one.is_alive}
        missing = [service for service in SERVICES if service.name not in running]
        _refuse_other_ports(known_ports(folder), ports, running)
        for service in missing:
            refuse_taken_port(service, ports)
        write_ports(folder, ports)
        started: dict[str, Process] = {}
        try:
            for service in missing:
                if service.name == "prefect-worker":
                    _register(stack)
                one = start(service, stack)
                started[service.name] = process(one.pid)
                file.write({**running, **started})
                wait_for(service, stack, one)
        except BaseException:
            end(reversed(started.values()))
            file.write(running)
            raise
        environment = stack.write_environment(_elasticsearch(folder, elasticsearch))
    what = f"Started {', '.join(started)}." if started else "Everything is running already."
    return f"{what} Logs are in {folder}.\nUse it in a shell by:  . {environment}\nEnd it by:  infra/down"


def _refuse_other_ports(before: Ports, now: Ports, running: Collection[str]) -> None:
    """Raise `UserError` if a running server would have to change its port."""
    for service in SERVICES:
        if service.port is not None and service.name in running and service.port(before) != service.port(now):
            raise UserError(
                f"{service.name} runs on port {service.port(before)}, not {service.port(now)}. End the stack by "
                "infra/down first, or leave the option out."
            )


def _register(stack: Stack) -> None:
    """Create the work pool and register all deployments, again if they changed."""
    environment = worker_environment(stack)
    for arguments in (
        ["work-pool", "create", POOL, "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all"],
    ):
        done = subprocess.run(
            [str(BIN / "prefect"), *arguments], cwd=FOLDER, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UserError(f"prefect {' '.join(arguments)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _elasticsearch(folder: Path, wanted: bool) -> dict[str, str]:
    """Start Elasticsearch if it is wanted or was assembled before; returns its variables."""
    assembled = any((FOLDER / ".cache").glob("elasticsearch-*"))
    if not wanted and not assembled:
        return {}
    data = folder / "elasticsearch"
    done = subprocess.run(
        [str(ELASTICSEARCH / "start.sh"), str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"Elasticsearch does not run: {done.stderr.strip()[-500:]}", file=sys.stderr)
        return {}
    return {"ELASTICSEARCH_URL": done.stdout.strip()}


if __name__ == "__main__":
    sys.exit(main())
