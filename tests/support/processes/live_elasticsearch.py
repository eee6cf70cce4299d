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
UNAVAILABLE = 3
"""Exit status of start.sh if Java, Maven or the jars are unavailable."""


class NoServerError(Exception):
    """This machine cannot run a server."""


class LiveServer:
    """A server with its data in a folder. It keeps its port when it is restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""

    def start(self) -> None:
        """Start it, unless it is running, and wait until it answers."""
        port = self.url.rpartition(":")[2] or "0"
        started = subprocess.run([SCRIPTS / "start.sh", self.folder, port], capture_output=True, text=True)
        if started.returncode == UNAVAILABLE:
            raise NoServerError(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        self.url = started.stdout.strip()

    def stop(self) -> None:
        """Shut it down."""
        subprocess.run([SCRIPTS / "stop.sh", self.folder], check=True)

    def kill(self) -> None:
        """Kill it at once, like a power cut."""
        process = self.process()
        os.kill(process, signal.SIGKILL)
        while psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.05)

    def process(self) -> int:
        """Return its process id."""
        return int((self.folder / "pid").read_text())
