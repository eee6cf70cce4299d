"""Product attribute prediction: distances of values from title and attribute, and their loss (Equations 2 and 3).

    d(t, n, v) = || f(E(t ⊕ n)) - f(E(v)) ||
    loss of (t, n, v) = -log σ(γ - d(t, n, v)) - Σ_{v'} 1/k log σ(d(t, n, v') - γ)

E(x) is the last hidden state of [CLS], f one dense layer with GELU, the same for both sides. A pair with P values has P
triples, which share the k negatives: its losses add up to Σ_v … - P/k Σ_{v'} …, and E(t ⊕ n) is computed once.

Shape legend: S sequences, B pairs, N values, D hidden size.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.linear import Linear
from models.encoder.network import initialise
from models.objectives.electra_em_pap.pairs import PairBatch


class AttributeHead(nn.Module):
    """f: one dense layer with GELU, as wide as the encoder."""

    def __init__(self, hidden_size: int, initializer_range: float) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)
        initialise(self.dense, initializer_range)

    def forward(self, states_SD: Tensor) -> Tensor:
        """Return f(E(x)) float32 (S, D) of [CLS] states (S, D)."""
        return F.gelu(self.dense(states_SD)).float()


def distances(projected_SD: Tensor, batch: PairBatch, norm: int) -> Tensor:
    """Return d(t, n, v) float32 (N,) of every value (Equation 2); `norm` is 1 or 2."""
    pairs_BD = projected_SD.index_select(0, batch.pair_sequences)
    differences_ND = pairs_BD.index_select(0, batch.value_pairs) - projected_SD.index_select(0, batch.value_sequences)
    return torch.linalg.vector_norm(differences_ND, ord=norm, dim=1)


def attribute_loss(distance_N: Tensor, batch: PairBatch, margin: float) -> Tensor:
    """Return Equation 3 added over the batch's triples, a scalar."""
    slack_N = torch.where(batch.is_positive, margin - distance_N, distance_N - margin)
    return -(batch.weights * F.logsigmoid(slack_N)).sum()


def farther_negatives(distance_N: Tensor, batch: PairBatch) -> tuple[float, int]:
    """Return how many (positive, negative) of the same pair have the negative farther away, and how many there are.

    An equal distance counts one half. Time N log N, memory N.
    """
    distance, pair = distance_N.detach().double().cpu().numpy(), batch.value_pairs.cpu().numpy()
    positive = batch.is_positive.cpu().numpy()
    negatives = np.bincount(pair[~positive], minlength=int(pair.max()) + 1)
    nearer = 0.0
    for ties_first in (positive, ~positive):  # positives among equals last, then first: their mean counts one half
        order = np.lexsort((ties_first, distance, pair))
        seen = np.cumsum(~positive[order])
        before = (np.cumsum(negatives) - negatives)[pair[order]]
        nearer += float((seen - before)[positive[order]].sum()) / 2.0
    comparisons = int(negatives[pair[positive]].sum())
    return comparisons - nearer, comparisons
