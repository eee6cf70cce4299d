"""bfloat16: close to float32, or exactly float32, as each docstring promises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.encoder.attention import attend
from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.encoder.linear import linear
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise, keys
from models.objectives import build
from models.objectives.parts import lm_head

MakeRows = Callable[..., list[Any]]
LENGTHS = [7, 7, 12, 30]
OUTPUT_TOLERANCE = 0.02
"""Tolerance relative to the norm, after three layers that round factors to 8 bits (2^-9 or 0.2 %)."""
GRADIENT_TOLERANCE = 0.04


def relative_error(given: Tensor, expected: Tensor) -> float:
    exact = expected.detach().double()
    return float((given.detach().double() - exact).norm() / exact.norm())


def small_encoder(**changes: Any) -> tuple[Encoder, Tensor, Layout]:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_layers": 3, "num_heads": 4, "intermediate_size": 64}
    encoder = Encoder(EncoderConfig(**sizes | {"embedding_size": 16, "initializer_range": 0.2} | changes))
    return encoder, torch.randint(0, 97, (sum(LENGTHS),)), Layout.from_lengths(LENGTHS)


def outputs_and_gradients(encoder: Encoder, ids: Tensor, layout: Layout, autocast: bool) -> tuple[Tensor, Tensor]:
    """Hidden states, and all gradients of a fixed functional of them in one vector."""
    encoder.zero_grad()
    noise = SequenceNoise(keys(5, 0, range(len(LENGTHS))))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = encoder(ids, layout, noise=noise)
    direction = torch.from_numpy(np.random.default_rng(0).normal(size=out.shape)).float()
    (out * direction).sum().backward()
    gradients = [p.grad for p in encoder.parameters()]
    assert out.dtype == torch.float32 and all(g is not None and g.dtype == torch.float32 for g in gradients)
    return out.detach(), torch.cat([g.flatten() for g in gradients if g is not None])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("embedding_size", [16, 32])
def test_autocast_is_close_and_leaves_the_residual_stream_in_float32(embedding_size: int, dropout: float) -> None:
    options = {"embedding_size": embedding_size, "hidden_dropout": dropout, "attention_dropout": dropout}
    encoder, ids, layout = small_encoder(**options)
    dtypes = set()
    for layer in encoder.layers:
        layer.register_forward_hook(lambda module, inputs, out: dtypes.update({inputs[0].dtype, out.dtype}))
    exact, exact_gradient = outputs_and_gradients(encoder, ids, layout, autocast=False)
    out, gradient = outputs_and_gradients(encoder, ids, layout, autocast=True)
    assert dtypes == {torch.float32}
    assert 1e-4 < relative_error(out, exact) < OUTPUT_TOLERANCE  # over 1e-4: bfloat16 was used at all
    assert relative_error(gradient, exact_gradient) < GRADIENT_TOLERANCE


def test_weights_in_bfloat16_for_inference() -> None:
    encoder, ids, layout = small_encoder()
    with torch.no_grad():
        exact = encoder.eval()(ids, layout)
        out = encoder.to(torch.bfloat16)(ids, layout)
    assert out.dtype == torch.bfloat16
    assert relative_error(out, exact) < OUTPUT_TOLERANCE


def test_softmax_and_norm_of_bfloat16_add_up_in_float32() -> None:
    """The module's claim about torch's kernels: rounding happens once, at the end."""
    torch.manual_seed(0)
    x = (torch.randn(64, 512) * 4).bfloat16()
    assert torch.equal(torch.softmax(x, -1), torch.softmax(x.float(), -1).bfloat16())
    norm = torch.nn.LayerNorm(512).bfloat16()
    exact = torch.nn.functional.layer_norm(x.float(), (512,), norm.weight.float(), norm.bias.float())
    torch.testing.assert_close(norm(x), exact.bfloat16(), rtol=2**-7, atol=2**-9)


def test_attention_dropout_under_autocast_has_the_gradient_of_its_own_forward_pass() -> None:
    """Also if the input is still float32, and if the backward pass runs inside autocast."""
    torch.manual_seed(0)
    qkv = torch.randn(sum(LENGTHS), 3, 2, 8, requires_grad=True)
    layout = Layout.from_lengths(LENGTHS)

    def run(autocast: bool, backward_inside: bool) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            out = attend(qkv, layout, 0.3, SequenceNoise(keys(1, 0, range(len(LENGTHS)))))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=backward_inside):
            (gradient,) = torch.autograd.grad(out.float().square().sum(), qkv)
        return gradient

    exact, outside, inside = run(False, False), run(True, False), run(True, True)
    assert outside.dtype == torch.float32 and torch.equal(outside, inside)
    assert torch.equal(exact, run(False, True))  # a float32 pass stays one
    assert relative_error(outside, exact) < GRADIENT_TOLERANCE


def test_float32_product_has_a_float32_derivative_wherever_it_is_taken() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(20, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
    out = linear(x, weight).square().sum()
    outside = torch.autograd.grad(out, (x, weight), retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = torch.autograd.grad(out, (x, weight))
    assert all(torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


def test_losses_of_ehealth_under_autocast(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    """Every term is float32 and near float32's. CSP's cosines, divided by 0.07, would show any rounding of theirs."""
    torch.manual_seed(0)
    objective = build("ehealth", tiny | {"initializer_range": 0.05}).eval()
    batch = objective.collate(make_rows([20, 12, 12, 33, 40, 40]), seed=3, step=1)
    exact = objective(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = objective(batch)
        result = objective._run(batch)
    for name, value in losses.items():
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(exact[name].item(), rel=0.01), name
    for logits in (result.rtd_logits_T, result.mts_scores_RK):
        assert logits is not None and logits.dtype == torch.float32


def test_bf16_learns_as_float32_does(tiny: dict[str, Any], make_rows: MakeRows) -> None:
    """The curves agree step by step at first, and in the mean at the end; 500 steps of the small preset are
    benchmarks/training/precision.py's.
    """
    rows = make_rows([30] * 8, vocab_size=60)
    options = {"initializer_range": 0.1, "hidden_dropout": 0.0, "attention_dropout": 0.0}

    def curve(autocast: bool) -> np.ndarray:
        torch.manual_seed(0)
        objective = build("ehealth", tiny | options)
        optimizer = torch.optim.AdamW(objective.parameters(), lr=2e-3)
        losses = []
        for step in range(60):
            batch = objective.collate(rows, seed=1, step=step)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = objective(batch)["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return np.array(losses)

    exact, rounded = curve(False), curve(True)
    np.testing.assert_allclose(rounded[:3], exact[:3], rtol=0.01)
    assert exact[-20:].mean() < exact[0] - 5
    assert rounded[-20:].mean() == pytest.approx(exact[-20:].mean(), rel=0.05)


def test_heads_rounded_product_has_a_matching_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's product of rounded factors, simulated on the CPU: loss and gradients stay near float32's."""
    torch.manual_seed(0)
    head = lm_head.LanguageModelHead(EncoderConfig(vocab_size=50, hidden_size=8, num_heads=2, embedding_size=12))
    hidden, table = torch.randn(40, 8), torch.randn(50, 12, requires_grad=True)
    inputs = (torch.randint(0, 50, (40,)), torch.rand(40, 6, 2).double())
    leaves = (table, *head.parameters())
    exact = head(hidden, table, *inputs)
    expected = torch.autograd.grad(exact.loss_sum, leaves)

    def played(a: Tensor, b: Tensor) -> Tensor:
        return a.bfloat16().float() @ b.bfloat16().float().t()

    monkeypatch.setattr(lm_head, "product_for", lambda device: played)
    out = head(hidden, table, *inputs)
    assert out.loss_sum.dtype == torch.float32 and 1e-6 < relative_error(out.loss_sum, exact.loss_sum) < 0.01
    for a, b in zip(torch.autograd.grad(out.loss_sum, leaves), expected, strict=True):
        assert a.dtype == torch.float32 and relative_error(a, b) < GRADIENT_TOLERANCE


def test_rounded_factors_are_cudas_under_autocast_alone() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lm_head.product_for("cpu") is lm_head.matmul_transposed
        assert lm_head.product_for("cuda") is lm_head.matmul_transposed
    a, b = torch.empty(5, 8, device="meta"), torch.empty(3, 8, device="meta")
    out = lm_head.rounded_product(a, b, torch.bfloat16)  # no kernel runs: torch knows the call and its result
    assert out.shape == (5, 3) and out.dtype == torch.float32
