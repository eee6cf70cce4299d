"""Distribution of the model over workers: each holds all of it (DDP), or its share of every layer (FSDP2).

Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020; Zhao et al., "PyTorch
FSDP: experiences on scaling fully sharded data parallel", VLDB 2023 (FSDP2 is torch's `fully_shard`). Both average
gradients over workers, which is what objectives expect (models/distributed.py).

torch's modules for sharding are imported where they are used: that takes half a second, and a command that only checks
a preset shards nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from models.distributed import world
from models.encoder.network import EncoderLayer

CALLED_METHODS = ("survey", "metrics")
"""Methods of an objective, besides `forward`, that read its weights; FSDP2 must gather those first."""


def parallelise(objective: Any, kind: str, device: torch.device) -> nn.Module:
    """Return the module to call in place of `objective`.

    In a world of one, and under FSDP2, it is `objective` itself. FSDP2 shards it in place, so make the optimiser
    afterwards. `kind` is ddp or fsdp2. With several processes torch.distributed must be initialised. Under FSDP2 a
    worker holds 1 / workers of weights, gradients and optimiser state, and one whole layer at a time beside them.
    """
    if world().size == 1:
        return objective
    if kind == "ddp":
        # A step of one of several tasks leaves the others' parameters without a gradient: DDP must look for them in
        # the graph of every step, which a run of one task is spared.
        return DistributedDataParallel(
            objective, gradient_as_bucket_view=True, find_unused_parameters=len(objective.tasks) > 1
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (world().size,))
    for module in objective.modules():
        if isinstance(module, EncoderLayer):
            fully_shard(module, mesh=mesh)
    fully_shard(objective, mesh=mesh)
    for name in CALLED_METHODS:
        if hasattr(objective, name):
            register_fsdp_forward_method(objective, name)
    return objective


@contextlib.contextmanager
def without_averaging(model: nn.Module, active: bool) -> Iterator[None]:
    """While `active`, add the gradients of backward passes in the block without averaging them over workers.

    The first backward pass outside the block averages the sum.
    """
    if active and isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    from torch.distributed.fsdp import FSDPModule

    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(not active)
    yield


def whole(tensor: Tensor) -> Tensor:
    """Return a sharded tensor put together, on every worker alike (each must call it); any other unchanged."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """Return `value` sharded like `like`, or unchanged if `like` is whole. Every worker must call it."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or value.shape != like.shape:  # the optimiser's step counters are scalars
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
