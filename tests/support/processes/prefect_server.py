"""A Prefect server on loopback with all deployments and a worker; both can be killed and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import certifi
import psutil

from infra.settings import REPOSITORY
from tests.support.processes.ray_head import free_port, kill_all

PREFECT = str(Path(sys.executable).parent / "prefect")
POOL = "yiwen"


def one_certificate(folder: Path) -> Path:
    """Write the first of the authorities that certifi has, and return its file.

    Prefect's client reads all of them whenever it is made, five times for each deployment, though all here is http.
    """
    end = "-----END CERTIFICATE-----\n"
    path = folder / "authority.pem"
    path.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    return path


class PrefectServer:
    """The server, its worker, and the environment that names them; a store and logs are in the folder."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.environment = {
            # Tests that ran flows in this process have left the password of their temporary server.
            **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "YIWEN_HOME": str(folder / "store"),
            "PYTHONPATH": str(REPOSITORY),
            "PREFECT_API_SSL_CERT_FILE": str(one_certificate(folder)),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_server(self) -> None:
        """Start the server, or start it again with what it knew, and wait until it answers."""
        self._start("server", "start", "--port", str(self.port), "--host", "127.0.0.1")
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.environment['PREFECT_API_URL']}/health", timeout=5).close()
                return
            except OSError:
                assert self._processes["server"].poll() is None, self.logs()
                assert time.monotonic() < deadline, self.logs()
                time.sleep(0.3)

    def deploy(self, *names: str) -> None:
        """Register the work pool, and the deployments of these names or all."""
        self.call("work-pool", "create", POOL, "--type", "process")
        chosen = [part for name in names for part in ("--name", name)]
        self.call("--no-prompt", "deploy", *(chosen or ["--all"]))

    def start_worker(self) -> None:
        """Start a worker."""
        self._start("worker", "start", "--pool", POOL, "--type", "process", "--name", "test")

    def _start(self, *arguments: str) -> None:
        log = (self.folder / f"{arguments[0]}.log").open("ab")
        self._processes[arguments[0]] = subprocess.Popen(
            [PREFECT, *arguments], cwd=REPOSITORY, env=self.environment, stdout=log, stderr=subprocess.STDOUT
        )

    def kill_server(self) -> None:
        """Kill the server with all of its processes."""
        process = self._processes.pop("server")
        kill_all([*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)])
        process.wait()

    def kill_worker(self) -> list[psutil.Process]:
        """Kill the worker alone; returns the processes that it had started."""
        process = self._processes.pop("worker")
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        return started

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the processes of the worker's runs with a text in their command."""
        below = psutil.Process(self._processes["worker"].pid).children(recursive=True)
        return [one for one in below if name in " ".join(one.cmdline())]

    def call(self, *arguments: str) -> str:
        """Return what a command of Prefect's prints."""
        done = subprocess.run(
            [PREFECT, *arguments], cwd=REPOSITORY, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"prefect {' '.join(arguments)}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def post(self, path: str, body: dict[str, object]) -> list[dict[str, Any]]:
        """Return the server's answer to a query."""
        request = urllib.request.Request(
            f"{self.environment['PREFECT_API_URL']}{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def latest_run(self) -> dict[str, Any]:
        """Return the run that was due last; the server has planned those of schedules for the days to come."""
        until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        due = {"flow_runs": {"expected_start_time": {"before_": until}}}
        (found,) = self.post("/flow_runs/filter", {**due, "sort": "EXPECTED_START_TIME_DESC", "limit": 1})
        return found

    def run(self, identifier: str) -> dict[str, Any]:
        """Return a flow run as it is now."""
        (found,) = self.post("/flow_runs/filter", {"flow_runs": {"id": {"any_": [identifier]}}})
        return found

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds."""
        deadline = time.monotonic() + 400
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.2)

    def logs(self) -> str:
        """Return the ends of what server and worker have printed."""
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        """End the worker, then the server."""
        for name in ("worker", "server"):
            if name in self._processes:
                self._processes[name].terminate()
                self._processes[name].wait(60)
