"""Dropout whose mask belongs to the sequence, not to the batch.

On the CPU each sequence's mask comes from its own stream (models/randomness.py), so a row is dropped alike whatever
rows share its worker. On an accelerator torch's own dropout is used, from the device's generator.

Shape legend: T tokens laid end to end, D width, S sequences.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.layout import Layout
from models.randomness import SequenceNoise, keep_probability


def dropout(x_TD: Tensor, rate: float, layout: Layout, noise: SequenceNoise | None) -> Tensor:
    """x with each element zeroed with probability `rate` and the others scaled up; `noise` None means torch's own
    generator.
    """
    if rate == 0.0:
        return x_TD
    if noise is None:
        return F.dropout(x_TD, rate)
    return _ScaledMask.apply(x_TD, _mask(x_TD, rate, layout, noise), 1.0 / keep_probability(rate))


def dropout_add(x_TD: Tensor, residual_TD: Tensor, rate: float, layout: Layout, noise: SequenceNoise | None) -> Tensor:
    """residual + dropout(x), in one pass over memory on the CPU."""
    if rate == 0.0:
        return residual_TD + x_TD
    if noise is None:
        return residual_TD + F.dropout(x_TD, rate)
    mask_TD = _mask(x_TD, rate, layout, noise)
    return _ScaledMaskAdd.apply(x_TD, residual_TD, mask_TD, 1.0 / keep_probability(rate))


def _mask(x_TD: Tensor, rate: float, layout: Layout, noise: SequenceNoise) -> Tensor:
    width = x_TD.shape[1]
    return noise.keep_mask([length * width for length in layout.lengths], rate).view(x_TD.shape)


class _ScaledMask(torch.autograd.Function):
    """x * mask * scale; keeps the mask alone, one byte an element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.scale), None, None


class _ScaledMaskAdd(torch.autograd.Function):
    """residual + x * mask * scale; keeps the mask alone, one byte an element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return torch.addcmul(residual, x, mask.to(x.dtype), value=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.scale), grads[0], None, None
