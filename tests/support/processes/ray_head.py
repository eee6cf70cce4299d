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

import psutil

from infra.settings import LOCAL_RAY_DEFAULTS, REPOSITORY

TOKEN = "a-token-of-this-test-of-32-letters"


class RayHead:
    """The cluster, and the environment of processes that submit to it."""

    def __init__(self) -> None:
        # Not pytest's folder: the path of a Unix socket below it has to stay short.
        self.folder = Path(tempfile.mkdtemp(prefix="yw"))
        self.port = _free_port()
        self.environment = {
            **os.environ,
            **LOCAL_RAY_DEFAULTS,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
        }
        environment = {name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"}
        self._log = (self.folder / "head.log").open("wb")
        self._process = subprocess.Popen(
            [
                *f"{Path(sys.executable).parent}/ray start --head --block --port=0 --num-cpus=2".split(),
                *f"--dashboard-host=127.0.0.1 --dashboard-port={self.port} --node-ip-address=127.0.0.1".split(),
                *f"--min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port={_free_port()}".split(),
                *f"--temp-dir={self.folder} --object-store-memory=134217728 --disable-usage-stats".split(),
            ],
            env=environment,
            stdout=self._log,
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
        request = urllib.request.Request(f"{self.address}/api/jobs/", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.loads(answer.read())
        return {job["submission_id"]: job["status"] for job in found if job["submission_id"]}

    def stop(self) -> None:
        """End this cluster: its head and all descendants. (`ray stop` would end every Ray on the machine.)"""
        processes = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=30)
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
