"""Dropout whose mask belongs to the sequence, not to the batch.

On the CPU each sequence's mask comes from its own stream (models/encoder/randomness.py), so a row gets the same dropout
whichever rows share its worker. On an accelerator torch's own dropout is used, with the device's generator.

Shape legend: T tokens laid end to end, D width, S sequences.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise, keep_probability


def draw_mask(x_TD: Tensor, rate: float, layout: Layout, noise: SequenceNoise | None) -> Tensor | None:
    """Return a uint8 mask of x's shape: 0 where `noise` drops, 1 elsewhere.

    None if nothing is dropped, or if torch's own generator draws.
    """
    if rate == 0.0 or noise is None:
        return None
    width = x_TD.shape[1]
    return noise.keep_mask([length * width for length in layout.lengths], rate).view(x_TD.shape)


def dropout(x_TD: Tensor, rate: float, mask_TD: Tensor | None) -> Tensor:
    """Return x with each element zeroed with probability `rate` and the others scaled up.

    Without a mask from `draw_mask`, torch's own generator draws one.
    """
    if rate == 0.0:
        return x_TD
    if mask_TD is None:
        return F.dropout(x_TD, rate)
    return _ScaledMask.apply(x_TD, mask_TD, 1.0 / keep_probability(rate))


def dropout_add(x_TD: Tensor, residual_TD: Tensor, rate: float, mask_TD: Tensor | None) -> Tensor:
    """Return residual + dropout(x), in one pass over memory on the CPU.

    The result has the wider of the two dtypes, so that a float32 residual stays float32 where x is bfloat16.
    """
    if rate == 0.0:
        return residual_TD + x_TD
    if mask_TD is None:
        return residual_TD + F.dropout(x_TD, rate)
    scale = 1.0 / keep_probability(rate)
    if torch.compiler.is_compiling():  # the compiler fuses plain operations, and chooses what to keep itself
        return residual_TD + x_TD * (mask_TD * scale)
    return _ScaledMaskAdd.apply(x_TD, residual_TD, mask_TD, scale)


class _ScaledMask(torch.autograd.Function):
    """x * mask * scale; keeps only the mask for the derivative, one byte per element."""

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
    """residual + x * mask * scale; keeps only the mask for the derivative, one byte per element."""

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
