"""Replaced token detection: a head that decides for every token whether it was replaced (ELECTRA)."""

import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.linear import Linear
from models.encoder.network import EncoderConfig


class ReplacedTokenHead(nn.Module):
    """Dense layer, GELU and one logit per token, as in ELECTRA's discriminator."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.output = Linear(config.hidden_size, 1)

    def forward(self, hidden_TD: Tensor) -> Tensor:
        """Return logits (T,); positive where the token looks replaced."""
        return self.output(F.gelu(self.dense(hidden_TD)))[:, 0]
