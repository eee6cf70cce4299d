"""Attention of a mention over its neighbours, by their types and by themselves (Eq. 3 to 7).

Shape legend: M mentions, K neighbours of a mention at most, U distinct neighbours, C width of an entity's vector (d2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.linear import Linear
from models.infusion.config import InfusionConfig
from models.infusion.neighbourhood import Neighbourhood


class TypeAttention(nn.Module):
    """Eq. 3: how much each type of neighbours matters to a mention."""

    def __init__(self, entity_size: int) -> None:
        super().__init__()
        self.mention = Linear(entity_size, entity_size, bias=False)
        self.kind = Linear(entity_size, entity_size, bias=False)
        self.score = Linear(entity_size, 1, bias=False)

    def forward(self, mention_MC: Tensor, near: Neighbourhood) -> Tensor:
        """Return alpha float32 (M, K), for each neighbour the weight of its type; 0 at places without a neighbour.

        A mention's types have weights that add up to 1. A type is represented by the sum of the vectors of its
        neighbours.
        """
        is_same_MKK = (near.types.unsqueeze(2) == near.types.unsqueeze(1)) & near.known.unsqueeze(1)
        vectors_MKC = near.vectors[near.places]
        types_MKC = torch.bmm(is_same_MKK.to(vectors_MKC.dtype), vectors_MKC).to(vectors_MKC.dtype)
        mixed_MKC = torch.tanh(self.mention(mention_MC).unsqueeze(1) + _rowwise(self.kind, types_MKC))
        scores_MK = _rowwise(self.score, mixed_MKC).squeeze(2).float()
        # A type takes part in the softmax once, through its first neighbour, however many neighbours it has.
        places_K = torch.arange(near.known.shape[1], device=near.places.device)
        is_first_MK = near.known & (is_same_MKK.float().argmax(2) == places_K)
        peak_M1 = scores_MK.masked_fill(~near.known, -torch.inf).amax(1, keepdim=True).detach()
        # Without any neighbour the peak is -inf, and all weights are 0.
        raised_MK = torch.exp((scores_MK - peak_M1).masked_fill(~near.known, -torch.inf))
        total_M1 = (raised_MK * is_first_MK).sum(1, keepdim=True)
        return raised_MK / total_M1.clamp(min=torch.finfo(torch.float32).tiny)


class HybridAttention(nn.Module):
    """Eq. 4 to 7: a mention's knowledge, as a weighted sum of its neighbours and a two-layer network.

    In Eq. 4 the weight of a neighbour's type multiplies its score inside the softmax, as printed.
    """

    def __init__(self, config: InfusionConfig) -> None:
        super().__init__()
        size = config.entity_size
        self.type_attention = TypeAttention(size) if config.type_attention else None
        self.query = Linear(size, size, bias=False)
        self.key = Linear(size, size, bias=False)
        self.value = Linear(size, size)
        self.intermediate = Linear(size, 4 * size)
        self.output = Linear(4 * size, size, bias=False)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def weights(self, mention_MC: Tensor, near: Neighbourhood) -> Tensor:
        """Return beta of Eq. 5, float32 (M, K): weights of the neighbours, which add up to 1; 0 at empty places."""
        keys_MKC = self.key(near.vectors)[near.places]
        scores_MK = torch.bmm(keys_MKC, self.query(mention_MC).to(keys_MKC.dtype).unsqueeze(2)).squeeze(2).float()
        scores_MK = scores_MK / math.sqrt(mention_MC.shape[1])
        if self.type_attention is not None:
            scores_MK = scores_MK * self.type_attention(mention_MC, near)
        weights_MK = torch.softmax(scores_MK.masked_fill(~near.known, torch.finfo(torch.float32).min), 1)
        return weights_MK * near.known

    def forward(self, mention_MC: Tensor, near: Neighbourhood) -> Tensor:
        """Return the knowledge of each mention (M, C), in the precision of the weights; meaningless for a mention
        without neighbours.
        """
        near = replace(near, vectors=near.vectors.to(mention_MC.dtype))
        weights_MK = self.weights(mention_MC, near)
        values_MKC = self.value(near.vectors)[near.places]
        sum_MC = torch.bmm(weights_MK.unsqueeze(1).to(values_MKC.dtype), values_MKC).squeeze(1)
        sum_MC = sum_MC.to(self.norm.weight.dtype)
        return self.norm(sum_MC + self.output(F.gelu(self.intermediate(sum_MC))))


def _rowwise(layer: nn.Module, x_MKC: Tensor) -> Tensor:
    """Apply a layer that takes rows: (M, K, C) to (M, K, outputs)."""
    return layer(x_MKC.flatten(0, 1)).unflatten(0, x_MKC.shape[:2])
