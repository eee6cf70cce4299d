"""Convolution and pooling along packed sequences. Nothing outside a sequence is read: it counts as zeros.

Shape legend: T tokens laid end to end, I inputs, F filters, K taps (the width of a filter).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
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
        taps = linear(x_TI, self.weight).split(self.filters, dim=1)
        ends_T = layout.jagged_offsets[1:][owners(layout)]
        left_T = layout.positions
        right_T = ends_T - 1 - torch.arange(layout.total, device=ends_T.device)
        middle = (self.width - 1) // 2
        out_TF = taps[middle] + self.bias
        for tap, part_TF in enumerate(taps):
            offset = tap - middle
            if offset:
                inside_T = right_T >= offset if offset > 0 else left_T >= -offset
                out_TF = out_TF + _shifted(part_TF, offset) * inside_T[:, None]
        return out_TF


def _shifted(x_TF: Tensor, offset: int) -> Tensor:
    """Return y with y[t] = x[t + offset], and zeros where there is no such row."""
    rows = len(x_TF)
    if abs(offset) >= rows:
        return torch.zeros_like(x_TF)
    if offset > 0:
        return F.pad(x_TF[offset:], (0, 0, 0, offset))
    return F.pad(x_TF[:offset], (0, 0, -offset, 0))


def max_pool(x_TF: Tensor, layout: Layout, size: int) -> tuple[Tensor, Layout]:
    """Return the maximum over `size` tokens from every second one on, and the layout of what remains.

    A window that reaches over the end of its sequence is cut there: 5 tokens become 3, and a single one stays.
    """
    shorter = Layout.from_lengths([(length + 1) // 2 for length in layout.lengths]).to(x_TF.device)
    owner_P = owners(shorter)
    first_P = layout.jagged_offsets[:-1][owner_P] + 2 * shorter.positions
    last_P = layout.jagged_offsets[1:][owner_P] - 1
    best_PF = x_TF[first_P]
    for step in range(1, size):
        best_PF = torch.maximum(best_PF, x_TF[torch.minimum(first_P + step, last_P)])
    return best_PF, shorter
