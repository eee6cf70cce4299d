"""A flow on a Ray cluster of several nodes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from infra.artifacts import ArtifactStore
from infra.settings import REPOSITORY
from tests.support.processes.ray_nodes import RayNodes


class NodeFlow:
    """The process, which runs a module with the cluster's address and a local store, and what it says."""

    def __init__(self, cluster: RayNodes, store: ArtifactStore, module: str, *arguments: str, **more: str) -> None:
        self.store = store
        self._log = Path(store.root).parent / "flow.log"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=REPOSITORY,
            env={**cluster.environment, "YIWEN_HOME": store.root, **more},
            stdout=self._log.open("ab"),
            stderr=subprocess.STDOUT,
        )

    @property
    def said(self) -> str:
        """The end of what it printed, and of what the flows before it with this store did."""
        return self._log.read_text(errors="replace")[-6000:]

    def children(self) -> list[psutil.Process]:
        """Return its living child processes."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_for(self, pattern: str, number: int) -> None:
        """Return when the store has so many files of a pattern."""

        def there() -> bool:
            assert self.process.poll() is None, self.said
            return len(list(Path(self.store.root).glob(pattern))) >= number

        wait_until(there)

    def end(self) -> None:
        """Wait for the end, which is to be a good one."""
        assert self.process.wait(900) == 0, self.said


def wait_until(condition: Callable[[], Any], seconds: float = 600.0) -> Any:
    """Return what the condition gives, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found
