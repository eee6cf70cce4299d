"""The servers of the stack: a Prefect server with SQLite, a Ray head, a worker, and Elasticsearch where it can run."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.errors import UserError
from infra.place import FOLDER
from infra.settings import LOCAL_RAY_DEFAULTS, PREFECT_DEFAULTS, PRIVACY_DEFAULTS

POOL = "yiwen"
LOCAL = "127.0.0.1"
SECONDS_TO_START = 180.0
LINES_SHOWN = 15
LONGEST_FOLDER = 40
"""Characters of Ray's folder, so that the paths of its Unix sockets keep to the 107 that Linux allows."""
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Ports:
    """Ports on loopback."""

    prefect: int = 4200
    ray: int = 8265


PORTS = "ports.json"
"""File of a stack with the ports that it was started with."""


def known_ports(folder: Path) -> Ports:
    """Return the ports of a stack that was started before, or the usual ones."""
    try:
        return Ports(**json.loads((folder / PORTS).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # none, or one that a kill cut off
        return Ports()


def write_ports(folder: Path, ports: Ports) -> None:
    """Note the ports of a stack."""
    (folder / PORTS).write_text(json.dumps(asdict(ports)), encoding="utf-8")


class Stack:
    """One stack: a folder that only its user can enter, with its secrets, logs and the ids of its processes."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self.folder = folder
        self.ports = ports
        self.secrets = self._secrets()

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which flows and clients reach the servers."""
        return {
            "PREFECT_API_URL": f"http://{LOCAL}:{self.ports.prefect}/api",
            "PREFECT_API_AUTH_STRING": f"yiwen:{self.secrets['prefect']}",
            "RAY_ADDRESS": f"http://{LOCAL}:{self.ports.ray}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.secrets["ray"],
        }

    @property
    def ray_folder(self) -> Path:
        """Folder of Ray's sockets and logs: of the stack, or a private one elsewhere if that path is too long."""
        own = (self.folder / "ray").resolve()
        if len(str(own)) <= LONGEST_FOLDER:
            return own
        noted = self.folder / "ray.folder"
        if not noted.exists():
            noted.write_text(tempfile.mkdtemp(prefix="yw", dir="/tmp"), encoding="utf-8")
        return Path(noted.read_text(encoding="utf-8")) / "ray"  # Ray opens its own folder to everybody

    def write_environment(self, more: Mapping[str, str]) -> Path:
        """Write the file that a shell reads to reach the servers; its secrets are readable by its user only."""
        file = self.folder / "environment"
        # Prefect's own command does not import our settings: in a shell it is to report nothing either.
        variables = PRIVACY_DEFAULTS | self.environment | dict(more)
        lines = [f"export {name}={value}" for name, value in variables.items()]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file

    def _secrets(self) -> dict[str, str]:
        """Return the secrets of the stack: random, made once, and kept in files of their own."""
        found = {}
        for name in ("prefect", "ray"):
            file = self.folder / f"{name}.secret"
            if not file.exists():
                file.write_text(secrets.token_hex(32), encoding="utf-8")
            found[name] = file.read_text(encoding="utf-8")
        return found


@dataclass(frozen=True)
class Service:
    """A server: its command, its variables, and a test whether it answers."""

    name: str
    command: Callable[[Stack], list[str]]
    environment: Callable[[Stack], dict[str, str]]
    answers: Callable[[Stack], bool]
    port: Callable[[Ports], int] | None = None


def _own(stack: Stack) -> dict[str, str]:
    """Variables of every service; none of the caller's that name other servers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "RAY_"))}
    defaults = PRIVACY_DEFAULTS | PREFECT_DEFAULTS
    search = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return defaults | kept | {"PATH": search, "PYTHONPATH": str(FOLDER), "PREFECT_HOME": str(stack.folder / "prefect")}


def _prefect(stack: Stack) -> dict[str, str]:
    return _own(stack) | {"PREFECT_SERVER_API_AUTH_STRING": stack.environment["PREFECT_API_AUTH_STRING"]}


def _ray(stack: Stack) -> dict[str, str]:
    own = {name: value for name, value in stack.environment.items() if name.startswith("RAY_AUTH")}
    return _own(stack) | LOCAL_RAY_DEFAULTS | own


def worker_environment(stack: Stack) -> dict[str, str]:
    """Return the variables of the worker, whose flows send heavy stages to the Ray head."""
    # What jobs print is shown with the flow run.
    return _own(stack) | stack.environment | {"PREFECT_LOGGING_EXTRA_LOGGERS": "flows,infra.cluster"}


def _ray_command(stack: Stack) -> list[str]:
    return [
        str(BIN / "ray"),
        *["start", "--head", "--block", "--port=0", "--disable-usage-stats", "--include-dashboard=true"],
        *(f"--node-ip-address={LOCAL} --dashboard-host={LOCAL} --dashboard-port={stack.ports.ray}").split(),
        *["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"],
        f"--temp-dir={stack.ray_folder}",
    ]


def _server_command(stack: Stack) -> list[str]:
    return [str(BIN / "prefect"), "server", "start", "--host", LOCAL, "--port", str(stack.ports.prefect)]


def _worker_command(stack: Stack) -> list[str]:
    return [str(BIN / "prefect"), "worker", "start", "--pool", POOL, "--type", "process", "--name", "yiwen-local"]


SERVICES = (
    Service(
        "prefect-server",
        _server_command,
        _prefect,
        lambda stack: answers(f"http://{LOCAL}:{stack.ports.prefect}/api/health", "Basic"),
        lambda ports: ports.prefect,
    ),
    Service(
        "ray-head",
        _ray_command,
        _ray,
        lambda stack: answers(f"http://{LOCAL}:{stack.ports.ray}/api/version", "Bearer"),
        lambda ports: ports.ray,
    ),
    Service("prefect-worker", _worker_command, worker_environment, lambda stack: True),
)
"""In the order in which they are started; they are ended in the other one."""


def answers(address: str, scheme: str) -> bool:
    """Return whether a server answers, be it that it asks for its password (`scheme`: Basic or Bearer)."""
    try:
        urllib.request.urlopen(address, timeout=5).close()
        return True
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except OSError:
        return False


def refuse_taken_port(service: Service, ports: Ports) -> None:
    """Raise `UserError` if another program listens on the port of a service that is to be started."""
    if service.port is None:
        return
    port = service.port(ports)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port that rests is free
        try:
            probe.bind((LOCAL, port))
        except OSError as error:
            option = "--prefect-port" if service.name == "prefect-server" else "--ray-port"
            raise UserError(
                f"Port {port} of {service.name} is taken by another program ({error.strerror}). End that program, or "
                f"give another port: infra/up {option} {port + 1000}."
            ) from error


def start(service: Service, stack: Stack) -> subprocess.Popen[bytes]:
    """Start a service in a session of its own, so that Ctrl-C in a terminal does not reach it."""
    with (stack.folder / f"{service.name}.log").open("ab") as log:
        return subprocess.Popen(
            service.command(stack),
            cwd=FOLDER,
            env=service.environment(stack),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_for(service: Service, stack: Stack, running: subprocess.Popen[bytes]) -> None:
    """Return when a service answers.

    Raises:
        UserError: it ended, or does not answer in time; the message has the end of its log.
    """
    deadline = time.monotonic() + SECONDS_TO_START
    while running.poll() is None and time.monotonic() < deadline:
        if service.answers(stack):
            return
        time.sleep(0.2)
    log = stack.folder / f"{service.name}.log"
    shown = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES_SHOWN:])
    how = "does not answer" if running.poll() is None else f"ended with exit status {running.returncode}"
    raise UserError(f"{service.name} {how}. The end of {log}:\n{shown}")
