"""Schedule, parameter groups and clipping."""

import pytest
import torch

from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.training.optimisation import clip_gradients, learning_rate_at, make_optimizer, set_learning_rate


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 2e-8), (4_999, 1e-4), (9_999, 2e-4), (10_000, 2e-4), (505_000, 1e-4), (999_999, 2e-4 / 990_000), (10**6, 0.0)],
)
def test_papers_schedule(step: int, expected: float) -> None:
    rate = learning_rate_at(step, peak=2e-4, warmup_steps=10_000, total_steps=1_000_000)
    assert rate == pytest.approx(expected, rel=1e-12)


def test_schedules_without_warm_up_or_decay() -> None:
    assert learning_rate_at(0, peak=1.0, warmup_steps=0, total_steps=4) == 1.0
    assert learning_rate_at(3, peak=1.0, warmup_steps=4, total_steps=4) == 1.0
    assert learning_rate_at(9, peak=1.0, warmup_steps=1, total_steps=4) == 0.0
    with pytest.raises(ValueError, match="warmup_steps=5 must be between 0 and total_steps=4"):
        learning_rate_at(0, peak=1.0, warmup_steps=5, total_steps=4)


def test_decay_spares_biases_and_norms() -> None:
    encoder = Encoder(EncoderConfig(vocab_size=20, hidden_size=8, num_heads=2, num_layers=1, intermediate_size=16))
    optimizer = make_optimizer(encoder, lr=0.5, weight_decay=0.1)
    before = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    for parameter in encoder.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # with no gradient, decay alone moves weights: by 1 - 0.5 * 0.1
    for name, parameter in encoder.named_parameters():
        factor = 1.0 if name.endswith("bias") or "norm" in name else 0.95
        torch.testing.assert_close(parameter.detach(), before[name] * factor, msg=name)
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_clipping_bounds_the_joint_norm() -> None:
    module = torch.nn.Linear(3, 1)
    module.weight.grad, module.bias.grad = torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([4.0])
    assert clip_gradients(module).item() == pytest.approx(5.0)
    assert module.bias.grad.item() == pytest.approx(0.8, rel=1e-5)
    assert clip_gradients(module, 10.0).item() == pytest.approx(1.0, rel=1e-5)
    assert module.bias.grad.item() == pytest.approx(0.8, rel=1e-5)
