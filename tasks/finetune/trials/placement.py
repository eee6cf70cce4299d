"""Placement of a grid's trials: how many at a time, on GPUs or on cores, of this machine or of a Ray cluster."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from infra.cluster.session import nodes, start_ray
from infra.errors import UserError
from infra.settings import JOB_VARIABLE, Settings, available_cores, is_job_endpoint
from tasks.finetune.params import Resources
from tasks.training.placement import Node

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialPlacement:
    """Resources of each trial, and number of trials that run at a time."""

    at_once: int
    gpu: bool
    threads: int
    """Cores per trial, if Ray runs them."""
    only_by_ray: bool
    """The GPUs belong to a cluster: Ray assigns them, and this process may have none, so no trial can run here."""
    per_gpu: int = 1
    """Trials that share a GPU."""

    @property
    def gpus(self) -> float:
        """GPUs of a trial, as Ray counts them: to four decimals, and never more than one for those that share it."""
        return math.floor(10_000 / self.per_gpu) / 10_000 if self.gpu else 0.0


def placement_for(trials: int, resources: Resources) -> TrialPlacement:
    """Return the placement of a number of trials on the cluster that `RAY_ADDRESS` names, or else on this machine.

    In the first case this process is connected to the cluster.

    Raises:
        UserError: a GPU is required, and this machine has none.
    """
    settings = Settings.from_environment()
    if _names_cluster(settings):
        start_ray(available_cores(), settings.ray_address)
        return place_trials(trials, resources, nodes(), cluster=True)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if resources.gpu and not gpus:
        raise UserError(
            "The trials' resources ask for a GPU, and torch finds none on this machine. Leave gpu out, or set "
            "RAY_ADDRESS to a Ray cluster with GPUs."
        )
    return place_trials(trials, resources, [{"CPU": available_cores(), "GPU": gpus}], cluster=False)


def place_trials(trials: int, resources: Resources, nodes: Sequence[Node], *, cluster: bool) -> TrialPlacement:
    """Return the placement of a number of trials on nodes.

    A trial gets a GPU, or its share of one, with its share of the node's cores. Without GPUs it gets the most cores
    with which all trials of a time fit. If a GPU is required and no node has one yet, trials wait for it one by one.
    """
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    gpu = gpus > 0 if resources.gpu is None else resources.gpu
    if not gpu:
        at_once = max(1, min(trials, resources.trials_at_once or _room(nodes, 2)))
        return TrialPlacement(at_once, False, _most_cores(nodes, at_once), False)
    if not gpus:
        logger.warning("The trials' resources ask for a GPU, and no node of the cluster has one yet. Waiting for one.")
    per_gpu = resources.trials_per_gpu
    room = max(gpus, 1) * per_gpu
    at_once = max(1, min(trials, resources.trials_at_once or room, room))
    shares = [int(node.get("CPU", 0) // (node["GPU"] * per_gpu)) for node in nodes if node.get("GPU")]
    return TrialPlacement(at_once, True, max(1, min(shares, default=1)), cluster, per_gpu)


def _room(nodes: Sequence[Node], cores: int) -> int:
    """Return how many trials with a number of cores fit on the nodes. A trial does not span nodes."""
    return sum(int(node.get("CPU", 0) // cores) for node in nodes)


def _most_cores(nodes: Sequence[Node], at_once: int) -> int:
    largest = int(max((node.get("CPU", 0) for node in nodes), default=1))
    return next((cores for cores in range(largest, 1, -1) if _room(nodes, cores) >= at_once), 1)


def _names_cluster(settings: Settings) -> bool:
    """Return whether Ray tasks run on a cluster: one whose address is given, or that of the job we run in.

    A job endpoint (http…) takes whole jobs, not tasks.
    """
    address = settings.ray_address
    return JOB_VARIABLE in os.environ or (address is not None and not is_job_endpoint(address))
