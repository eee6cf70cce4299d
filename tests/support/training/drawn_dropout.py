"""Attention by its formula, and the gradient that belongs to the dropout which a kernel has drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.encoder.layout import Layout

Attention = Callable[[Tensor, Layout, float], Tensor]
"""Takes qkv (T, 3, H, C), a layout and a rate; draws from the device's default generator; returns (T, H * C)."""
RATE = 0.4


def naive(qkv_T3HC: Tensor, lengths: list[int], masks: list[Tensor] | None = None, keep: float = 1.0) -> Tensor:
    """softmax(q k^T / sqrt(C)) v for each sequence and head on its own."""
    outputs, start = [], 0
    for i, length in enumerate(lengths):
        q, k, v = qkv_T3HC[start : start + length].transpose(0, 2).unbind(1)  # each (H, L, C)
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1)
        weights = weights if masks is None else weights * masks[i] / keep
        outputs.append((weights @ v).transpose(0, 1).flatten(1))
        start += length
    return torch.cat(outputs)


def drawn_and_plain(attention: Attention, lengths: list[int], device: str) -> tuple[list[Tensor], list[Tensor]]:
    """Return output and gradient of `attention` with dropout, and of the formula with the same mask in float64.

    A draw is repeated by its seed. With the identity as values, the outputs are the weights that are left, which tells
    the mask.
    """
    widest, layout = -(-max(lengths) // 8) * 8, Layout.from_lengths(lengths).to(device)
    torch.manual_seed(0)
    qkv = torch.randn(layout.total, 3, 2, widest, device=device)
    seen = qkv.clone()
    seen[:, 2] = torch.eye(widest, device=device)[layout.positions][:, None]
    own, plain = qkv.clone().requires_grad_(), qkv.double().cpu().requires_grad_()
    torch.manual_seed(1)
    left = attention(seen, layout, RATE).unflatten(1, (2, widest)).cpu()
    masks = [
        (part[:, :, :length] != 0).transpose(0, 1).double()
        for part, length in zip(left.split(lengths), lengths, strict=True)
    ]
    torch.manual_seed(1)
    found, expected = attention(own, layout, RATE), naive(plain, lengths, masks, 1.0 - RATE)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    (found.double().cpu() * weights).sum().backward()
    (expected * weights).sum().backward()
    assert own.grad is not None and plain.grad is not None
    return [found.detach().double().cpu(), own.grad.double().cpu()], [expected.detach(), plain.grad]
