"""Gated infusion of the neighbours' knowledge into a mention's tokens, and with it all of Eq. 2 to 11.

    h' = LN(GELU(f_sp(h_i, …, h_j) W_be))                          Eq. 2, SpanProjection
    knowledge = hybrid attention of h' over the neighbours         Eq. 3 to 7, HybridAttention
    f = GELU([knowledge | h'] W_mf + b_mf)                         Eq. 8
    m = LN(f W_bp + b_bp)                                          Eq. 9, one vector of width D per mention
    g = tanh([h_i | m] W_ug + b_ug)                                Eq. 10, for each token i of the mention
    h_i + GELU([h_i | g * m] W_ex + b_ex)                          Eq. 11

Equation 10 and 11 are computed at the mentions' tokens only. All other tokens, and those of mentions without
neighbours, keep their states bit for bit.

Shape legend: T tokens of a batch, N tokens of M mentions, D width of the states (d1), C width of an entity's vector
(d2).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.linear import Linear
from models.encoder.network import initialise
from models.infusion.config import InfusionConfig
from models.infusion.hybrid_attention import HybridAttention
from models.infusion.neighbourhood import Neighbourhood
from models.infusion.pooling import SpanProjection
from models.infusion.spans import Spans


class KnowledgeInfusion(nn.Module):
    """All of section 3.3, for all mentions of a batch at once: `KnowledgeInfusion(config)(hidden_TD, spans, near)`."""

    def __init__(self, config: InfusionConfig) -> None:
        super().__init__()
        self.config = config
        width, size = config.hidden_size, config.entity_size
        self.span = SpanProjection(width, size, config.layer_norm_eps)
        self.attention = HybridAttention(config)
        self.mix = Linear(2 * size, 2 * size)
        self.expand = Linear(2 * size, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.gate = Linear(2 * width, width)
        self.output = Linear(2 * width, width)
        self.apply(lambda module: initialise(module, config.initializer_range))

    def forward(self, hidden_TD: Tensor, mentions: Spans, knowledge: Neighbourhood) -> Tensor:
        """Return the states (T, D) with knowledge at the mentions' tokens."""
        mention_MC = self.span(hidden_TD, mentions)
        known_MC = self.attention(mention_MC, knowledge)
        mixed_MD = F.gelu(self.mix(torch.cat([known_MC, mention_MC], 1)))
        infused_MD = self.norm(self.expand(mixed_MD).to(self.norm.weight.dtype))
        hidden_ND = hidden_TD.index_select(0, mentions.tokens)
        infused_ND = infused_MD.to(hidden_ND.dtype).index_select(0, mentions.owners)
        gates_ND = torch.tanh(self.gate(torch.cat([hidden_ND, infused_ND], 1)))
        change_ND = F.gelu(self.output(torch.cat([hidden_ND, gates_ND * infused_ND], 1))).to(hidden_TD.dtype)
        has_any_N1 = knowledge.known.any(1)[mentions.owners].unsqueeze(1)
        return hidden_TD.index_copy(0, mentions.tokens, torch.where(has_any_N1, hidden_ND + change_ND, hidden_ND))
