"""Collective operations that objectives need; without a process group they work as a world of one.

Losses are means over the *global* batch: each rank returns its own sum / global count * world size, so that DDP's
averaging over ranks gives the gradient that one process with the joint batch would have.

Shape legend: N rows here, G rows on all ranks, D width.
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class World(NamedTuple):
    """Place of this process among its peers."""

    rank: int
    size: int


def world() -> World:
    """Return rank and number of processes; (0, 1) if torch.distributed is not initialised."""
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    return World(0, 1)


def global_sum(values: Tensor) -> Tensor:
    """Return the sum over ranks, without a gradient, on the input's device; the input is not changed."""
    total = values.detach().clone()
    if world().size > 1:
        # NCCL moves only device memory, but callers also add up numbers that are on the CPU.
        total = total.cuda() if dist.get_backend() == "nccl" else total
        dist.all_reduce(total)
    return total.to(values.device)


def least_over_ranks(value: float, device: torch.device) -> float:
    """Return the smallest value of all ranks; `device` is one on which the process group can reduce."""
    least = torch.tensor(value, dtype=torch.float64, device=device)
    if world().size > 1:
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
    return float(least)


def gather_with_gradient(rows_ND: Tensor) -> tuple[Tensor, int]:
    """Return all ranks' rows in order of rank, (G, D), and the index of this rank's first row.

    Ranks may hold different numbers of rows. The gradient is exact: each rank receives the gradient of all ranks'
    losses for its rows.
    """
    rank, size = world()
    if size == 1:
        return rows_ND, 0
    counts = [torch.zeros(1, dtype=torch.int64, device=rows_ND.device) for _ in range(size)]
    dist.all_gather(counts, torch.tensor([len(rows_ND)], device=rows_ND.device))
    sizes = [int(count) for count in counts]
    return _Gather.apply(rows_ND, sizes, rank), sum(sizes[:rank])


class _Gather(torch.autograd.Function):
    """All-gather in the forward pass; the backward pass all-reduces the gradient of all rows and keeps its own."""

    @staticmethod
    def forward(ctx: Any, rows_ND: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = rows_ND.new_zeros(max(sizes), *rows_ND.shape[1:])  # backends gather equal shapes only
        padded[: len(rows_ND)] = rows_ND
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        start = sum(ctx.sizes[: ctx.rank])
        return total[start : start + ctx.sizes[ctx.rank]], None, None
