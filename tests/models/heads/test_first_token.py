"""[CLS] alone equals [CLS] of the whole encoder, in values, gradients and the distribution of dropout."""

from typing import Any

import numpy as np
import pytest
import torch

from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.heads.first_token import encode_first

LENGTHS = [3, 3, 7, 12]


def make(**change: Any) -> tuple[Encoder, Layout, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "intermediate_size": 24}
    encoder = Encoder(EncoderConfig(**sizes, max_positions=20, **change))
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    total = sum(LENGTHS)
    return encoder, Layout.from_lengths(LENGTHS), torch.randint(0, 30, (total,)), torch.randint(0, 2, (total,))


@pytest.mark.parametrize("change", [{}, {"embedding_size": 8}, {"num_layers": 1}, {"positions": "rotary"}])
def test_values_and_gradients_are_the_encoder_s(change: dict[str, Any]) -> None:
    encoder, layout, ids, types = make(**{k: v for k, v in change.items() if k != "num_layers"})
    if "num_layers" in change:
        encoder.layers = encoder.layers[:1]
    encoder.eval()
    ours, whole = encode_first(encoder, ids, layout, types, None), encoder(ids, layout, types)[layout.firsts]
    torch.testing.assert_close(ours, whole, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(ours)
    parameters = list(encoder.parameters())
    for a, b in zip(
        torch.autograd.grad((ours * direction).sum(), parameters),
        torch.autograd.grad((whole * direction).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_dropout_has_the_encoder_s_distribution() -> None:
    """Mean and spread over many draws; draws differ, as the streams meet other elements in the last layer."""
    encoder, _, ids, types = make(hidden_dropout=0.2, attention_dropout=0.3)
    encoder.train()
    copies = 800
    many = Layout.from_lengths([length for length in LENGTHS for _ in range(copies)])
    noise = SequenceNoise(np.arange(copies * len(LENGTHS), dtype=np.uint64))

    def repeated(values: torch.Tensor) -> torch.Tensor:
        return torch.cat([part.repeat(copies) for part in values.split(LENGTHS)])

    with torch.no_grad():
        ours = encode_first(encoder, repeated(ids), many, repeated(types), noise)
        whole = encoder(repeated(ids), many, repeated(types), noise)[many.firsts]
    ours, whole = (x.view(len(LENGTHS), copies, -1) for x in (ours, whole))
    error = (2 / copies) ** 0.5 * whole.std(1)
    assert ((ours.mean(1) - whole.mean(1)).abs() / error).max() < 5
    assert (ours.std(1) / whole.std(1) - 1).abs().max() < 0.15
