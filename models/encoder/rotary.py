"""Rotary positions (Su et al., 2021, "RoFormer", Eq. 34): a token's place turns its queries and keys.

Channels 2i and 2i + 1 of a head are one complex number, which a token at place n turns by the angle n / 10000^(2i/C).
The product of a query and a key then depends on their distance alone, and no table of positions is learnt. With rotary
positions, small models leave the plateau of character frequencies within minutes; with learned ones they stay on it for
hours.

The numbers are those of transformers' `RoFormerModel` with `rotary_value=False` (parity is tested in float32).

Shape legend: T tokens laid end to end, H heads, C channels of a head.
"""

import functools
from typing import Any

import torch
from torch import Tensor

BASE = 10_000.0
"""The slowest pair of channels turns once in 2 pi x BASE tokens."""


@functools.lru_cache(maxsize=16)
def turns(max_positions: int, channels: int, device: torch.device) -> Tensor:
    """Return unit complex numbers by place and pair of channels: complex64 (max_positions, C / 2).

    They are computed in float64 and rounded once. This is a function, not a buffer: a module's buffers are cast with
    it, and a complex number cast to bfloat16 loses its imaginary part.
    """
    speeds = BASE ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(max_positions, dtype=torch.float64)[:, None] * speeds
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64).to(device)


def turn(x_TNC: Tensor, turns_TC: Tensor, heads: int | None = None) -> Tensor:
    """Return channels turned by their tokens' places, in the shape given: (T, N, C) of N heads, queries and keys alike.

    `turns_TC` complex64 (T, C / 2) are rows of `turns`. Half-precision channels are turned in float32.

    Args:
        heads: number of heads, from the first, that are turned; the others are copied, such as the values of a fused
            product. None: all.
    """
    return _Turn.apply(x_TNC, turns_TC, x_TNC.shape[1] if heads is None else heads)


class _Turn(torch.autograd.Function):
    """Multiplication by `turns_TC`; its derivative turns back, so no activation is kept."""

    @staticmethod
    def forward(ctx: Any, x_TNC: Tensor, turns_TC: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(turns_TC)
        ctx.heads = heads
        return _multiplied(x_TNC, turns_TC, heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (turns_TC,) = ctx.saved_tensors
        return _multiplied(grads[0], turns_TC.conj(), ctx.heads), None, None


def _multiplied(x_TNC: Tensor, turns_TC: Tensor, heads: int) -> Tensor:
    x_TNC = x_TNC.contiguous()
    out_TNC = torch.empty_like(x_TNC)
    out_TNC[:, heads:] = x_TNC[:, heads:]
    turned, given = out_TNC[:, :heads], x_TNC[:, :heads]
    if x_TNC.dtype == torch.float32:  # straight into its place: one pass over memory
        torch.mul(_pairs(given), turns_TC[:, None], out=_pairs(turned))
    else:
        turned.copy_(torch.view_as_real(_pairs(given.float()) * turns_TC[:, None]).flatten(2))
    return out_TNC


def _pairs(x_TNC: Tensor) -> Tensor:
    """View channels 2i and 2i + 1 as one complex number."""
    return torch.view_as_complex(x_TNC.unflatten(2, (-1, 2)))
