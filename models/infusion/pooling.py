"""Self-attentive pooling of a mention's tokens (Lin et al., 2017, "A structured self-attentive sentence embedding").

Shape legend: T tokens of a batch, N tokens of M mentions, D width of the states (d1), C width of a span (d2).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.linear import Linear
from models.infusion.spans import Spans


class SpanPooling(nn.Module):
    """f_sp of Eq. 2 and 12: a mean of a mention's tokens with learnt weights.

    weights = softmax(w tanh(W h)) over the tokens of a mention: one hop, no biases, as in the paper it is taken from.
    """

    def __init__(self, hidden_size: int, attention_size: int) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, attention_size, bias=False)
        self.score = Linear(attention_size, 1, bias=False)

    def forward(self, hidden_TD: Tensor, spans: Spans) -> Tensor:
        """Return the pooled states (M, D), in the precision of the states."""
        hidden_ND = hidden_TD.index_select(0, spans.tokens)
        weights_N = spans.softmax(self.score(torch.tanh(self.dense(hidden_ND))).squeeze(1))
        return spans.sum(weights_N.to(hidden_ND.dtype).unsqueeze(1) * hidden_ND)


class SpanProjection(nn.Module):
    """LN(GELU(f_sp(h_i, …, h_j) W)), a mention in the space of the entities: Eq. 2, and with other weights Eq. 12."""

    def __init__(self, hidden_size: int, entity_size: int, layer_norm_eps: float) -> None:
        super().__init__()
        self.pooling = SpanPooling(hidden_size, entity_size)
        self.dense = Linear(hidden_size, entity_size, bias=False)
        self.norm = nn.LayerNorm(entity_size, eps=layer_norm_eps)

    def forward(self, hidden_TD: Tensor, spans: Spans) -> Tensor:
        """Return (M, C) from states (T, D), in the precision of the weights."""
        return self.norm(F.gelu(self.dense(self.pooling(hidden_TD, spans))).to(self.norm.weight.dtype))
