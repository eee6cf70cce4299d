"""The dense layer equals torch's, with its gradients, through oneDNN and through the fallback."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder import linear as module


@pytest.mark.parametrize("has_onednn", [True, False])
@pytest.mark.parametrize("shape", [(37, 16, 48), (37, 48, 16), (1, 8, 8), (0, 8, 4)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients(
    shape: tuple[int, int, int], with_bias: bool, has_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_onednn and not module.HAS_ONEDNN:
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(module, "HAS_ONEDNN", has_onednn)
    rows, inputs, outputs = shape
    torch.manual_seed(0)
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    bias = torch.randn(outputs) if with_bias else None
    grad = torch.randn(rows, outputs)
    ours = _with_gradients(module.linear, x, weight, bias, grad)
    theirs = _with_gradients(F.linear, x.double(), weight.double(), None if bias is None else bias.double(), grad)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)
        assert a.is_contiguous()


def test_float64_and_autocast_go_to_torch() -> None:
    x, weight = torch.randn(5, 8, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    assert torch.equal(module.linear(x, weight), F.linear(x, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module.linear(x.float(), weight.float()).dtype == torch.bfloat16


def _with_gradients(function, x: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor) -> list[Tensor]:  # type: ignore[no-untyped-def]
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias) if t is not None]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad.to(out.dtype))]
