"""A real Elasticsearch server for tests, assembled from Maven Central (infra/elasticsearch)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from infra.settings import REPOSITORY

SCRIPTS = REPOSITORY / "infra" / "elasticsearch"
NOT_TO_BE_HAD = 3
"""Exit status of start.sh where Java, Maven or the jars are not to be had."""


class NoServerError(Exception):
    """This machine cannot run one."""


class LiveServer:
    """A server whose data lie in a folder; it keeps its port when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""

    def start(self) -> None:
        """Start it and wait until it answers; where it runs already, nothing happens."""
        port = self.url.rpartition(":")[2] or "0"
        started = subprocess.run([SCRIPTS / "start.sh", self.folder, port], capture_output=True, text=True)
        if started.returncode == NOT_TO_BE_HAD:
            raise NoServerError(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        self.url = started.stdout.strip()

    def stop(self) -> None:
        """Stop it in order."""
        subprocess.run([SCRIPTS / "stop.sh", self.folder], check=True)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        process = self.process()
        os.kill(process, signal.SIGKILL)
        while psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.05)

    def process(self) -> int:
        """Its process id."""
        return int((self.folder / "pid").read_text())
