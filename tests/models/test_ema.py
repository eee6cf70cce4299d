"""Averaged weights: their recursion, their warm-up, and the restored weights of the model."""

import pytest
import torch
from torch import nn

from models.ema import ExponentialMovingAverage


def set_weights(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)


@pytest.mark.parametrize("warmup", [True, False])
def test_average_of_a_constant_is_that_constant(warmup: bool) -> None:
    model = nn.Linear(3, 2)
    average = ExponentialMovingAverage(model, warmup=warmup)
    for _ in range(50):
        average.update()
    for name, parameter in model.named_parameters():
        assert torch.equal(average.shadow[name], parameter)


@pytest.mark.parametrize("warmup", [True, False])
def test_updates_follow_the_recursion(warmup: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    set_weights(model, 0.0)
    average = ExponentialMovingAverage(model, decay=0.7, warmup=warmup)
    expected = 0.0
    for n in range(40):
        set_weights(model, float(n * n))
        average.update()
        decay = min(0.7, (1 + n) / (10 + n)) if warmup else 0.7
        expected = decay * expected + (1 - decay) * n * n
        assert average.shadow["weight"].item() == pytest.approx(expected, rel=1e-5)


def test_warm_up_forgets_the_start_of_a_short_run() -> None:
    model = nn.Linear(1, 1, bias=False)
    set_weights(model, 0.0)
    warm, plain = (ExponentialMovingAverage(model, warmup=warmup) for warmup in (True, False))
    set_weights(model, 1.0)
    for _ in range(100):
        warm.update()
        plain.update()
    assert warm.shadow["weight"].item() > 0.99
    assert plain.shadow["weight"].item() < 0.01


def test_weights_are_restored_bit_for_bit() -> None:
    model = nn.Linear(4, 4)
    average = ExponentialMovingAverage(model, decay=0.5, warmup=False)
    set_weights(model, 0.1)
    average.update()
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(KeyError), average.applied():
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, average.shadow[name])
        raise KeyError  # restored even then
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_frozen_parameters_and_gradients_are_left_alone() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    average = ExponentialMovingAverage(model)
    assert average.shadow.keys() == {"weight"}
    model(torch.ones(1, 2)).sum().backward()
    with average.applied():
        assert model.weight.requires_grad and model.weight.grad is not None


def test_state_continues_elsewhere() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    one, other = ExponentialMovingAverage(first), ExponentialMovingAverage(second)
    for _ in range(3):
        set_weights(first, 0.3)
        one.update()
    other.load_state_dict(one.state_dict())
    set_weights(second, 0.3)
    one.update()
    other.update()
    assert one.updates == other.updates == 4
    assert all(torch.equal(one.shadow[name], other.shadow[name]) for name in one.shadow)
    with pytest.raises(ValueError, match="another model's; different parameters: bias"):
        ExponentialMovingAverage(nn.Linear(2, 2, bias=False)).load_state_dict(one.state_dict())


def test_misuse_is_refused() -> None:
    average = ExponentialMovingAverage(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="nothing to restore"):
        average.restore()
    average.apply()
    for call in (average.apply, average.update):
        with pytest.raises(RuntimeError, match="applied"):
            call()
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\), got 1\.0"):
        ExponentialMovingAverage(nn.Linear(2, 2), decay=1.0)
