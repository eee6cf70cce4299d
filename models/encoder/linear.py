"""Dense layers that reach the CPU's full speed in float32.

torch's own `F.linear` uses MKL, which leaves AVX-512 unused on AMD processors: 190 GFLOP/s measured on two cores of an
EPYC, where oneDNN, which also ships inside torch, reaches 400 to 450 on the same shapes. oneDNN's dense layer has no
derivative in torch, so this module defines one. Without oneDNN, and for any other device or dtype, `linear` is
`F.linear`.

Shape legend: N tokens or positions, I inputs, O outputs.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""True if this build of torch includes oneDNN's dense layer."""


def linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W^T + b, shape (N, O), with gradients, on any device and dtype; equal to `F.linear` up to rounding."""
    if _onednn_applies(x_NI, weight_OI):
        return _OneDnnLinear.apply(x_NI, weight_OI, bias_O)
    return F.linear(x_NI, weight_OI, bias_O)


class Linear(nn.Linear):
    """`nn.Linear` computed by `linear`; inputs of shape (N, I) only."""

    def forward(self, x_NI: Tensor) -> Tensor:
        """Map (N, I) to (N, O)."""
        return linear(x_NI, self.weight, self.bias)


def matmul_transposed(a_NI: Tensor, b_OI: Tensor) -> Tensor:
    """Return A B^T, shape (N, O), without a gradient; A and B may be transposed views."""
    if _onednn_applies(a_NI, b_OI):
        return _onednn(a_NI, b_OI, None)
    return a_NI @ b_OI.t()


def _onednn_applies(x: Tensor, weight: Tensor) -> bool:
    return (
        HAS_ONEDNN
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.ndim == 2
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _onednn(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")


class _OneDnnLinear(torch.autograd.Function):
    """The dense layer and its derivative, three products by oneDNN."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        ctx.has_bias = bias_O is not None
        return _onednn(x_NI, weight_OI, bias_O)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # float32 as in the forward pass, wherever the backward pass is called
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_NO = grads[0].contiguous()
        x_NI, weight_OI = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _onednn(grad_NO, weight_OI.t(), None) if needs_x else None,
            weight_gradient(grad_NO, x_NI) if needs_weight else None,
            grad_NO.sum(0) if needs_bias and ctx.has_bias else None,
        )


def weight_gradient(
    grad_NO: Tensor, x_NI: Tensor, product: Callable[[Tensor, Tensor], Tensor] = matmul_transposed
) -> Tensor:
    """Return grad^T x, shape (O, I), by `product`, which computes A B^T.

    oneDNN is up to 1.4 times as fast with the narrower factor on the left, so the function chooses the side.
    """
    if grad_NO.shape[1] <= x_NI.shape[1]:
        return product(grad_NO.t(), x_NI.t())
    return product(x_NI.t(), grad_NO.t()).t().contiguous()
