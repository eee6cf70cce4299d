"""Where the trials of a grid run: how many at a time, on GPUs or on cores, of this machine or of a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field

from infra.cluster.session import nodes, start_ray
from infra.errors import UserError
from infra.settings import JOB_VARIABLE, Settings, available_cores, is_job_endpoint
from tasks.training.placement import Node

logger = logging.getLogger(__name__)


class Resources(BaseModel):
    """What the trials are given to run on. It changes speed, never which trials there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trials_at_once: int | None = Field(default=None, ge=1)
    """None: one a GPU; on CPUs one for every two cores of a node."""
    gpu: bool | None = None
    """None: where there is one."""


@dataclass(frozen=True)
class TrialPlacement:
    """What each trial gets, and how many run at a time."""

    at_once: int
    gpu: bool
    threads: int
    """Cores of a trial that Ray runs."""
    only_by_ray: bool
    """The GPUs are a cluster's: Ray gives them out, and this process may have none, so not even one trial runs here."""


def placement_for(trials: int, resources: Resources) -> TrialPlacement:
    """The placement of so many trials on the cluster that `RAY_ADDRESS` names, which this process is connected to
    then, or else on this machine.

    Raises:
        UserError: a GPU is asked for, and this machine has none.
    """
    settings = Settings.from_environment()
    if _names_cluster(settings):
        start_ray(available_cores(), settings.ray_address)
        return place_trials(trials, resources, nodes(), cluster=True)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if resources.gpu and not gpus:
        raise UserError(
            "The trials' resources ask for a GPU, and torch finds none on this machine. Leave gpu out, or name a Ray "
            "cluster that has some with RAY_ADDRESS."
        )
    return place_trials(trials, resources, [{"CPU": available_cores(), "GPU": gpus}], cluster=False)


def place_trials(trials: int, resources: Resources, nodes: Sequence[Node], *, cluster: bool) -> TrialPlacement:
    """The placement of so many trials on these nodes.

    A trial has one GPU, with its share of that node's cores; or cores alone, the most with which all that run at a time
    find room. Where a GPU is asked for and no node has one yet, trials wait for it one by one.
    """
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    gpu = gpus > 0 if resources.gpu is None else resources.gpu
    if not gpu:
        at_once = max(1, min(trials, resources.trials_at_once or _room(nodes, 2)))
        return TrialPlacement(at_once, False, _most_cores(nodes, at_once), False)
    if not gpus:
        logger.warning(
            "No node of the cluster has a GPU now, and the trials' resources ask for one: trials wait for it."
        )
    at_once = max(1, min(trials, resources.trials_at_once or gpus, max(gpus, 1)))
    shares = [int(node.get("CPU", 0) // node["GPU"]) for node in nodes if node.get("GPU")]
    return TrialPlacement(at_once, True, max(1, min(shares, default=1)), cluster)


def _room(nodes: Sequence[Node], cores: int) -> int:
    """How many trials of so many cores the nodes hold; a trial does not span nodes."""
    return sum(int(node.get("CPU", 0) // cores) for node in nodes)


def _most_cores(nodes: Sequence[Node], at_once: int) -> int:
    largest = int(max((node.get("CPU", 0) for node in nodes), default=1))
    return next((cores for cores in range(largest, 1, -1) if _room(nodes, cores) >= at_once), 1)


def _names_cluster(settings: Settings) -> bool:
    """Whether Ray runs tasks elsewhere: at an address that is no job endpoint, or on the cluster of the job we are."""
    address = settings.ray_address
    return JOB_VARIABLE in os.environ or (address is not None and not is_job_endpoint(address))
