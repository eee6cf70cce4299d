"""Convolution and pooling along packed sequences. Nothing outside a sequence is read: it counts as zeros.

Shape legend: T tokens laid end to end, I inputs, F filters, K taps (the width of a filter).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout
from models.encoder.linear import linear
from models.networks.parts.network import owners


class Convolution(nn.Module):
    """A convolution that returns as many positions as it is given, so that a text of one token has features too.

    An even filter reaches one token further to the right than to the left. All taps are one product over the tokens,
    and the small results are shifted and added, so that wide inputs are read once and never copied.
    """

    def __init__(self, inputs: int, filters: int, width: int) -> None:
        """`width`: K"""
        super().__init__()
        self.filters, self.width = filters, width
        bound = 1.0 / math.sqrt(inputs * width)  # as torch's own convolution draws both
        self.weight = nn.Parameter(torch.empty(width * filters, inputs).uniform_(-bound, bound))
        """(K F, I): the first tap of all filters, then the second, and so on."""
        self.bias = nn.Parameter(torch.empty(filters).uniform_(-bound, bound))

    def forward(self, x_TI: Tensor, layout: Layout) -> Tensor:
        """Return (T, F)."""
        joined: Tensor = _Join.apply(linear(x_TI, self.weight), self.bias, layout)
        return joined


class _Join(torch.autograd.Function):
    """The sum of all taps' results, each shifted to the token that it is for, and the bias.

    With one pass per tap and in place: the same sum by torch's own operations takes several, most of them over zeros.
    """

    @staticmethod
    def forward(ctx: Any, taps_TP: Tensor, bias_F: Tensor, layout: Layout) -> Tensor:
        """P is K F."""
        ctx.layout, ctx.width, ctx.dtype = layout, taps_TP.shape[1], taps_TP.dtype
        taps = taps_TP.split(len(bias_F), 1)
        middle = (len(taps) - 1) // 2
        out_TF = taps[middle] + bias_F
        for tap, part_TF in enumerate(taps):
            offset = tap - middle
            if offset and abs(offset) < layout.total:
                # The neighbouring sequence's tokens must not count, not even as a rounding error: what they are added
                # to is put back.
                outside = _ends(layout, offset)
                kept = out_TF[outside]
                _all_but(out_TF, -offset).add_(_all_but(part_TF, offset))
                out_TF[outside] = kept
        return out_TF

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (grad_TF,), layout = grads, ctx.layout
        found_TP = torch.empty(len(grad_TF), ctx.width, dtype=ctx.dtype, device=grad_TF.device)
        parts = found_TP.split(grad_TF.shape[1], 1)
        middle = (len(parts) - 1) // 2
        for tap, part_TF in enumerate(parts):
            offset = tap - middle
            if abs(offset) >= layout.total:
                part_TF.zero_()
                continue
            _all_but(part_TF, offset).copy_(_all_but(grad_TF, -offset))
            if offset:
                part_TF[_ends(layout, -offset)] = 0.0
        return found_TP, grad_TF.sum(0), None


def _all_but(x_TF: Tensor, rows: int) -> Tensor:
    """Return x without its first rows, or without its last ones where the number is negative."""
    return x_TF[rows:] if rows >= 0 else x_TF[:rows]


def _ends(layout: Layout, offset: int) -> Tensor:
    """Return int64 (N,): the tokens t for which t + offset is in another sequence, some of them several times."""
    steps = torch.arange(abs(offset), device=layout.index_offsets.device)
    firsts_S1, lasts_S1 = layout.index_offsets[:-1, None], layout.index_offsets[1:, None] - 1
    if offset > 0:
        return torch.maximum(lasts_S1 - steps, firsts_S1).flatten()
    return torch.minimum(firsts_S1 + steps, lasts_S1).flatten()


def max_pool(x_TF: Tensor, layout: Layout, size: int) -> tuple[Tensor, Layout]:
    """Return the maximum over `size` tokens from every second one on, and the layout of what remains.

    A window that reaches over the end of its sequence is cut there: 5 tokens become 3, and a single one stays.
    """
    shorter = Layout.from_lengths([(length + 1) // 2 for length in layout.lengths]).to(x_TF.device)
    owner_P = owners(shorter)
    first_P = layout.index_offsets[:-1][owner_P] + 2 * shorter.positions
    last_P = layout.index_offsets[1:][owner_P] - 1
    best_PF = x_TF[first_P]
    for step in range(1, size):
        best_PF = torch.maximum(best_PF, x_TF[torch.minimum(first_P + step, last_P)])
    return best_PF, shorter
