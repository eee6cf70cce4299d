"""The encoder without gradients has the numbers of the plain encoder, and stands for it only where it may."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.encoder import inference as encoder_inference
from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.encoder.network import Encoder

if not encoder_inference.HAS_ONEDNN:
    pytest.skip("this build of torch has no oneDNN", allow_module_level=True)


def make(**sizes: Any) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(vocab_size=30, intermediate_size=24, max_positions=40, **sizes)).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    heads=st.sampled_from([1, 2, 8]),
    layers=st.integers(1, 3),
    embedding=st.sampled_from([None, 8]),
    typed=st.booleans(),
    positions=st.sampled_from(["absolute", "rotary"]),
)
def test_numbers_are_the_plain_encoder_s(
    lengths: list[int], heads: int, layers: int, embedding: int | None, typed: bool, positions: str
) -> None:
    encoder = make(hidden_size=16, num_heads=heads, num_layers=layers, embedding_size=embedding, positions=positions)
    layout = Layout.from_lengths(lengths)
    ids, types = torch.randint(0, 30, (layout.total,)), torch.randint(0, 2, (layout.total,)) if typed else None
    whole = encoder(ids, layout, types).detach()
    with torch.no_grad():
        assert encoder_inference.applies(encoder)
        fast = encoder_inference.encode(encoder, ids, layout, types)
        first = encoder_inference.encode_first(encoder, ids, layout, types)
    torch.testing.assert_close(fast, whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first, whole[layout.firsts], rtol=1e-5, atol=1e-5)


def test_it_does_not_stand_for_an_encoder_that_learns_or_is_of_another_precision() -> None:
    encoder = make(hidden_size=16, num_heads=2, num_layers=1)
    assert not encoder_inference.applies(encoder)  # gradients are wanted
    with torch.no_grad():
        assert encoder_inference.applies(encoder)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not encoder_inference.applies(encoder)
        assert not encoder_inference.applies(encoder.train())  # dropout
        assert not encoder_inference.applies(encoder.eval().to(torch.bfloat16))
