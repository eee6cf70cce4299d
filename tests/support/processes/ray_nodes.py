"""A Ray cluster of several nodes on loopback, each of which can be killed whole, and the processes that it leaves."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from tests.support.processes.ray_head import RayHead, kill_all, processes_with


@dataclass
class RayNode:
    """A node without the head's processes: a raylet, its agents and its workers."""

    mark: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def processes(self, name: str = "") -> list[psutil.Process]:
        """Return its living processes with a text in their name or command, such as `ray::run_unit`."""
        return [one for one in processes_with(RayHead.MARK, self.mark) if name in shown(one)]

    def cut_off(self) -> None:
        """Stop every process where it is: to the others the node is as one behind a cut network."""
        for one in self.processes():
            one.suspend()

    def back(self) -> None:
        """Let the processes go on, as if nothing had been."""
        for one in self.processes():
            one.resume()

    def kill(self) -> None:
        """End the node as a power cut does: every process at once, without a word to anybody."""
        kill_all(self.processes())
        self.process.wait()
        self.log.close()


class RayNodes(RayHead):
    """The cluster. Tasks and training workers find room on its nodes, and none on its head.

    `cpus`: of each node. `jobs`: the head takes jobs and runs their programs; without it the cluster is joined by its
    address.
    """

    def __init__(self, nodes: int, *, cpus: int = 1, jobs: bool = False) -> None:
        self._jobs = jobs
        self._cpus = cpus
        super().__init__(cpus=0, jobs=jobs)
        self._started = 0
        self._wanted = nodes
        self.nodes: list[RayNode] = []

    @property
    def address(self) -> str:
        return super().address if self._jobs else f"127.0.0.1:{self.gcs_port}"

    def wait_until_up(self) -> None:
        """Return when the head answers and all nodes have joined."""
        if self._jobs:
            super().wait_until_up()
        self._wait_for(self._process, self.folder / "head.log")
        self.complete()

    def complete(self) -> None:
        """Start nodes until there are as many as in the beginning, and return when the cluster has them."""
        while len(self.nodes) < self._wanted:
            name = f"node-{self._started}"
            self._started += 1
            log = (self.folder / f"{name}.log").open("wb")
            # Each has a folder of its own, as on machines of their own: a node that is killed while it unpacks the code
            # would leave half of it to its neighbours.
            options = f"--address=127.0.0.1:{self.gcs_port} --num-cpus={self._cpus} --temp-dir={self.folder / name}"
            self.nodes.append(RayNode(self.mark(name), self._ray_start(log, options, name), log))
            self._wait_for(self.nodes[-1].process, Path(log.name))  # one after the other: each takes a core

    def _wait_for(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + 900
        while "Ray runtime started" not in (said := log.read_text(errors="replace")):
            assert process.poll() is None and time.monotonic() < deadline, said[-3000:]
            time.sleep(0.3)

    def kill(self, node: RayNode) -> None:
        """Kill a node whole."""
        self.nodes.remove(node)
        node.kill()

    def kill_head(self) -> None:
        """Kill the head whole; its nodes live on."""
        kill_all(processes_with(self.MARK, self.mark("head")))
        self._process.wait()

    def processes(self, name: str = "") -> list[psutil.Process]:
        """Return the living processes of all nodes, the head's too, with a text in their name or command."""
        return [one for one in processes_with(self.MARK, self.mark("")) if name in shown(one)]

    def stop(self) -> None:
        """End all nodes."""
        super().stop()
        for node in self.nodes:
            node.process.wait()
            node.log.close()


def shown(process: psutil.Process) -> str:
    """Return the command of a process, or what Ray calls a worker; empty where it has just ended."""
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return ""
