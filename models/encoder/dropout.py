"""Dropout whose mask belongs to the sequence, not to the batch.

On the CPU each sequence's mask comes from its own stream (models/encoder/randomness.py), so a row is dropped alike
whatever rows share its worker. On an accelerator torch's own dropout is used, from the device's generator.

Shape legend: T tokens laid end to end, D width, S sequences.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise, keep_probability


def draw_mask(x_TD: Tensor, rate: float, layout: Layout, noise: SequenceNoise | None) -> Tensor | None:
    """uint8 of x's shape: 0 where `noise` drops, 1 elsewhere. None where nothing is dropped, or torch's own generator
    is to draw.
    """
    if rate == 0.0 or noise is None:
        return None
    width = x_TD.shape[1]
    return noise.keep_mask([length * width for length in layout.lengths], rate).view(x_TD.shape)


def dropout(x_TD: Tensor, rate: float, mask_TD: Tensor | None) -> Tensor:
    """x with each element zeroed with probability `rate` and the others scaled up; without a mask from `draw_mask`
    torch's own generator draws.
    """
    if rate == 0.0:
        return x_TD
    if mask_TD is None:
        return F.dropout(x_TD, rate)
    return _ScaledMask.apply(x_TD, mask_TD, 1.0 / keep_probability(rate))


def dropout_add(x_TD: Tensor, residual_TD: Tensor, rate: float, mask_TD: Tensor | None) -> Tensor:
    """residual + dropout(x), in one pass over memory on the CPU; in the wider of the two dtypes, so that a float32
    residual stays one where x is bfloat16.
    """
    if rate == 0.0:
        return residual_TD + x_TD
    if mask_TD is None:
        return residual_TD + F.dropout(x_TD, rate)
    scale = 1.0 / keep_probability(rate)
    if torch.compiler.is_compiling():  # the compiler fuses plain operations, and chooses what to keep by itself
        return residual_TD + x_TD * (mask_TD * scale)
    return _ScaledMaskAdd.apply(x_TD, residual_TD, mask_TD, scale)


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
        ctx.scale, ctx.dtypes = scale, (x.dtype, residual.dtype)
        return torch.addcmul(residual, x, mask.to(x.dtype), value=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        x_dtype, residual_dtype = ctx.dtypes
        return (grads[0] * mask).mul_(ctx.scale).to(x_dtype), grads[0].to(residual_dtype), None, None
