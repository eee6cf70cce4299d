"""Attention over packed sequences equals the formula, sequence by sequence."""

import pytest
import torch

from models.encoder.attention import _attend_cuda, _AttentionWithDropout, attend, attend_padded
from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise, keep_probability, keys
from tests.support.training.drawn_dropout import drawn_and_plain, naive

LENGTHS = [3, 3, 5, 1, 5]


def test_without_dropout() -> None:
    torch.manual_seed(0)
    qkv = torch.randn(sum(LENGTHS), 3, 2, 4)
    out = attend(qkv, Layout.from_lengths(LENGTHS), 0.0, None)
    torch.testing.assert_close(out, naive(qkv, LENGTHS), rtol=1e-5, atol=1e-6)


def test_with_dropout_uses_each_sequences_own_mask() -> None:
    torch.manual_seed(0)
    qkv = torch.randn(sum(LENGTHS), 3, 2, 4)
    rate, sequence_keys = 0.4, keys(1, 0, range(len(LENGTHS)))
    out = attend(qkv, Layout.from_lengths(LENGTHS), rate, SequenceNoise(sequence_keys))
    masks = [
        SequenceNoise(sequence_keys[i : i + 1]).keep_mask([2 * n * n], rate).view(2, n, n).float()
        for i, n in enumerate(LENGTHS)
    ]
    torch.testing.assert_close(out, naive(qkv, LENGTHS, masks, keep_probability(rate)), rtol=1e-5, atol=1e-6)


def test_gradient_with_dropout() -> None:
    torch.manual_seed(0)
    qkv = torch.randn(sum(LENGTHS), 3, 2, 4, dtype=torch.float64, requires_grad=True)
    mask = (torch.rand(sum(2 * n * n for n in LENGTHS)) > 0.3).to(torch.uint8)
    layout = Layout.from_lengths(LENGTHS)
    assert torch.autograd.gradcheck(lambda x: _AttentionWithDropout.apply(x, layout, mask, 0.7), (qkv,))


def test_padded_form_that_cuda_uses_agrees() -> None:
    torch.manual_seed(0)
    qkv, layout = torch.randn(sum(LENGTHS), 3, 2, 8), Layout.from_lengths(LENGTHS)
    out = attend_padded(qkv, layout, 0.0)
    torch.testing.assert_close(out, attend(qkv, layout, 0.0, None), rtol=1e-5, atol=1e-6)


def test_padded_gradient_belongs_to_the_dropout_that_was_drawn() -> None:
    found, expected = drawn_and_plain(lambda qkv, layout, rate: attend_padded(qkv, layout, rate), LENGTHS, "cpu")
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_activations_are_computed_again_in_the_form_that_cuda_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "models.encoder.network.attend", lambda qkv_T3HC, layout, rate, noise: _attend_cuda(qkv_T3HC, layout, rate)
    )
    layout, gradients = Layout.from_lengths(LENGTHS), []
    for again in (False, True):
        torch.manual_seed(0)
        config = EncoderConfig(
            vocab_size=20, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=16, hidden_dropout=0.0,
            attention_dropout=0.0, checkpoint_activations=again,
        )  # fmt: skip
        encoder = Encoder(config).train()
        encoder(torch.arange(layout.total), layout).pow(3).sum().backward()
        gradients.append([parameter.grad for parameter in encoder.parameters()])
    assert all(gradient is not None and bool(gradient.any()) for gradient in gradients[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0.0, atol=0.0)


def test_dropout_without_streams_is_an_error() -> None:
    with pytest.raises(ValueError, match="noise"):
        attend(torch.randn(3, 3, 2, 4), Layout.from_lengths([3]), 0.1, None)
