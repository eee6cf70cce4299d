"""Replaced token detection: a head that decides for every token whether it was replaced (ELECTRA)."""

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.config import EncoderConfig
from models.encoder.linear import Linear
from models.weights.heads import layer_from


class ReplacedTokenHead(nn.Module):
    """Dense layer, GELU and one logit per token, as in ELECTRA's discriminator."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.output = Linear(config.hidden_size, 1)

    @staticmethod
    def read(state: Mapping[str, Tensor], model_type: str, order_V: Tensor) -> dict[str, Tensor]:
        """Return a checkpoint's weights for this head; only an ELECTRA discriminator has some."""
        dense, output = "discriminator_predictions.dense", "discriminator_predictions.dense_prediction"
        return layer_from(state, dense, "dense.") | layer_from(state, output, "output.")

    def forward(self, hidden_TD: Tensor) -> Tensor:
        """Return logits (T,); positive where the token looks replaced."""
        return self.output(F.gelu(self.dense(hidden_TD)))[:, 0]
