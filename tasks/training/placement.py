"""Placement of a training run on a machine or cluster: workers with their cores and GPUs, or why they do not fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infra.errors import UserError
from tasks.training.cluster import Cluster, Workers

logger = logging.getLogger(__name__)

Node = Mapping[str, float]
"""Resources of one node under Ray's names: CPU, GPU, memory (bytes)."""

SECONDS_BETWEEN_LOOKS = 5.0


@dataclass(frozen=True)
class Placement:
    """Number of workers, and what Ray reserves for each."""

    workers: Workers
    cpus: int
    gpu: bool
    memory_gb: float | None

    @property
    def resources(self) -> dict[str, float]:
        """Resources of one worker under Ray's names."""
        resources: dict[str, float] = {"CPU": self.cpus}
        if self.gpu:
            resources["GPU"] = 1
        if self.memory_gb is not None:
            resources["memory"] = self.memory_gb * 1e9
        return resources

    def room(self, nodes: Sequence[Node]) -> int:
        """Return how many such workers fit on the nodes if nothing else runs there. A worker does not span nodes."""
        wanted = self.resources.items()
        return sum(int(min(node.get(name, 0.0) // amount for name, amount in wanted)) for node in nodes)


def place(cluster: Cluster, nodes: Sequence[Node]) -> Placement:
    """Return the placement of a run; the nodes decide what the run leaves open.

    GPUs are used if there are any. A worker gets its GPU's share of the node's cores or, without GPUs, the most cores
    with which all workers fit.
    """
    gpu = any(node.get("GPU") for node in nodes) if cluster.gpu is None else cluster.gpu

    def with_cpus(cpus: int) -> Placement:
        return Placement(cluster.workers, cpus, gpu, cluster.memory_per_worker)

    if cluster.cpus_per_worker is not None:
        return with_cpus(cluster.cpus_per_worker)
    if gpu:
        shares = [int(node.get("CPU", 0) // node["GPU"]) for node in nodes if node.get("GPU")]
        return with_cpus(max(1, min(shares, default=1)))
    largest = int(max((node.get("CPU", 1.0) for node in nodes), default=1.0))
    # Three workers on two nodes of 8 cores get 4 each: with 5, the third would find no room.
    fitting = (with_cpus(cpus) for cpus in range(largest, 0, -1))
    return next((one for one in fitting if one.room(nodes) >= cluster.most_workers), with_cpus(1))


def wait_for_room(
    cluster: Cluster,
    nodes: Callable[[], Sequence[Node]],
    *,
    seconds: float,
    ask: Callable[[list[dict[str, float]]], None] = lambda bundles: None,
) -> Placement:
    """Return the placement as soon as the nodes have room for the fewest workers.

    Args:
        nodes: returns the nodes of this moment.
        seconds: how long to wait for more nodes; 0 for a machine that cannot grow.
        ask: requests resources of an autoscaler. It is called with an empty list at the end, to let the cluster shrink.

    Raises:
        UserError: there was never enough room.
    """
    deadline = time.monotonic() + seconds
    asked = False
    while True:
        there = nodes()
        placement = place(cluster, there)
        if placement.room(there) >= cluster.fewest_workers:
            break
        if time.monotonic() >= deadline:
            raise UserError(_no_room(cluster, placement, there, seconds))
        if not asked:
            logger.warning("%s Waiting for more nodes.", _no_room(cluster, placement, there, 0))
            ask([placement.resources] * cluster.fewest_workers)
            asked = True
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if asked:
        ask([])
    return placement


def _no_room(cluster: Cluster, placement: Placement, nodes: Sequence[Node], seconds: float) -> str:
    wanted = ", ".join(_amount(name, amount) for name, amount in placement.resources.items())
    names = [name for name in ("CPU", "GPU", "memory") if name in placement.resources]
    there = "; ".join(", ".join(_amount(name, node.get(name, 0.0)) for name in names) for node in nodes) or "no node"
    waited = f" after {seconds / 60:g} minutes" if seconds else ""
    return (
        f"No room for {cluster.fewest_workers} workers of {wanted} each{waited}: the nodes have {there}, room for "
        f"{placement.room(nodes)}. Reduce cluster.workers (or give [fewest, most]), cluster.cpus_per_worker or "
        "cluster.memory_per_worker, or add nodes."
    )


def _amount(name: str, amount: float) -> str:
    return f"{amount / 1e9:.1f} GB" if name == "memory" else f"{amount:g} {name}"
