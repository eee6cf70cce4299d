"""A Ray cluster of one node on loopback, with a job endpoint and a token; only its own processes are stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

import psutil

from infra.settings import LOCAL_RAY_DEFAULTS, REPOSITORY

TOKEN = "a-token-of-this-test-of-32-letters"


class RayHead:
    """The cluster, and the environment of processes that submit to it."""

    MARK = "YIWEN_TEST_NODE"
    """Variable that all processes of a node inherit, its jobs and workers too, even those whose parent has died."""

    def __init__(self, cpus: int = 2, *, jobs: bool = True) -> None:
        # Not pytest's folder: the path of a Unix socket below it has to stay short.
        self.folder = Path(tempfile.mkdtemp(prefix="yw"))
        self.port, self.gcs_port = free_port(), free_port()
        self.environment = {
            **os.environ,
            **LOCAL_RAY_DEFAULTS,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
        }
        self._log = (self.folder / "head.log").open("wb")
        endpoint = f"--dashboard-host=127.0.0.1 --dashboard-port={self.port}" if jobs else "--include-dashboard=false"
        self._process = self._ray_start(
            self._log,
            f"--head --port={self.gcs_port} --num-cpus={cpus} --temp-dir={self.folder} --disable-usage-stats "
            + endpoint,
            "head",
        )

    def mark(self, node: str) -> str:
        """Return the value of `MARK` in the processes of a node."""
        return f"{self.folder}/{node}"

    def _ray_start(self, log: IO[bytes], options: str, node: str) -> subprocess.Popen[bytes]:
        """Start the processes of a node; the one that is returned ends with them."""
        return subprocess.Popen(
            [
                *f"{sys.executable} -m tests.support.processes.ray_start start --block {options}".split(),
                "--node-ip-address=127.0.0.1",
                "--min-worker-port=0",
                "--max-worker-port=0",
                # Of ports that it is not given, a raylet waits 15 s for an agent to choose one, then gives up.
                f"--dashboard-agent-listen-port={free_port()}",
                f"--dashboard-agent-grpc-port={free_port()}",
                f"--metrics-export-port={free_port()}",
                f"--runtime-env-agent-port={free_port()}",
                "--object-store-memory=134217728",
            ],
            env={
                **{name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"},
                # By default 60 s and 30 s, too few while other tests run.
                "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "200",
                "RAY_agent_register_timeout_ms": "200000",
                self.MARK: self.mark(node),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_up(self) -> None:
        """Return when the endpoint answers."""
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.address}/api/version", timeout=5).close()
                return
            except urllib.error.HTTPError as error:
                if error.code == 401:  # up, and asks for the token
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError((self.folder / "head.log").read_text(errors="replace")[-3000:])

    def python(self, code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start an interpreter that submits to this cluster."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=REPOSITORY,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def jobs(self) -> dict[str, str]:
        """Return the status of each submitted job by its submission id."""
        return {job["submission_id"]: job["status"] for job in self.asked("/api/jobs/") if job["submission_id"]}

    def asked(self, path: str) -> Any:
        """Return the answer of the head's HTTP interface to a GET."""
        request = urllib.request.Request(self.address + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        """End this cluster: its head and all descendants. (`ray stop` would end every Ray on the machine.)"""
        kill_all(processes_with(self.MARK, self.mark("")))
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def processes_with(name: str, beginning: str) -> list[psutil.Process]:
    """Return the living processes in whose environment the value of a variable begins so, with their descendants.

    Ray's agents write their title over their environment, and may outlive their raylet by minutes.
    """
    found: dict[psutil.Process, None] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if process.environ().get(name, "").startswith(beginning):
                found |= dict.fromkeys((process, *process.children(recursive=True)))
    return list(found)


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill processes at once, as a machine that loses its power does."""
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(processes, timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
