"""The few collective operations that objectives need; all of them work without a process group, as a world of one.

Losses are means over the *global* batch: each rank returns its own sum / global count * world size, so that DDP's
averaging over ranks gives the gradient that one process with the joint batch would have.

Shape legend: N rows here, G rows on all ranks, D width.
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class World(NamedTuple):
    """This process's place among its peers."""

    rank: int
    size: int


def world() -> World:
    """Rank and number of processes; (0, 1) where torch.distributed is not initialised."""
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    return World(0, 1)


def global_sum(values: Tensor) -> Tensor:
    """Sum over ranks, without a gradient, on the input's device; the input is left as it is."""
    total = values.detach().clone()
    if world().size > 1:
        # NCCL moves nothing but device memory, and callers add up numbers that lie on the CPU too.
        total = total.cuda() if dist.get_backend() == "nccl" else total
        dist.all_reduce(total)
    return total.to(values.device)


def least_over_ranks(value: float, device: torch.device) -> float:
    """The smallest of all ranks' values; `device` is where the process group can reduce."""
    least = torch.tensor(value, dtype=torch.float64, device=device)
    if world().size > 1:
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
    return float(least)


def gather_with_gradient(rows_ND: Tensor) -> tuple[Tensor, int]:
    """All ranks' rows in order of rank, (G, D), and where this rank's begin. Ranks may hold different numbers of
    rows.

    The gradient is exact: each rank receives what all ranks' losses say about its rows.
    """
    rank, size = world()
    if size == 1:
        return rows_ND, 0
    counts = [torch.zeros(1, dtype=torch.int64, device=rows_ND.device) for _ in range(size)]
    dist.all_gather(counts, torch.tensor([len(rows_ND)], device=rows_ND.device))
    sizes = [int(count) for count in counts]
    return _Gather.apply(rows_ND, sizes, rank), sum(sizes[:rank])


class _Gather(torch.autograd.Function):
    """All-gather forward; backward all-reduces the gradient of all rows and keeps the own ones."""

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
