"""Multi-similarity loss with online hard mining, by which SapBERT aligns names of one concept (Liu et al., NAACL 2021).

The vectors of a batch are compared with each other; two are positive if they name the same concept, negative otherwise.
Only hard pairs count: those of a triplet of anchor a, positive p and negative n that the vectors do not separate by a
margin (equation 1), here with the sign of the margin by which a wider one keeps more triplets, as in the authors'
program. The loss (equation 2, Wang et al. 2019) pulls hard positives of each anchor together and pushes its hard
negatives apart.

Vectors have unit length. Time and memory grow with the square of the number of vectors.

Shape legend: S vectors of a batch, D their width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MultiSimilarityConfig:
    """Settings of mining and loss; the defaults are those of the authors' program.

    Raises ValueError naming the field.
    """

    margin: float = 0.2
    """λ of equation 1: distance by which a triplet must be separated to be ignored."""
    negative_scale: float = 60.0
    """α of equation 2."""
    positive_scale: float = 1.0
    """β of equation 2."""
    offset: float = 0.5
    """ε of equation 2: similarity from which negatives cost, and up to which positives do."""

    def __post_init__(self) -> None:
        for name in ("negative_scale", "positive_scale"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")
        for name in ("margin", "offset"):
            if not -2.0 <= getattr(self, name) <= 2.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be from -2 to 2")


def hard_pairs(vectors_SD: Tensor, concepts_S: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return which pairs (anchor, other) are hard positives and hard negatives: two bool (S, S).

    A triplet is hard if |a - p| + margin >= |a - n| (equation 1). So a positive is in a hard triplet if it is not
    closer than the anchor's nearest negative by the margin, and a negative if it is not farther than the anchor's
    farthest positive by it: no triplet need be listed.
    """
    with torch.no_grad():
        same_SS = concepts_S[:, None] == concepts_S[None, :]
        itself_SS = torch.eye(len(concepts_S), dtype=torch.bool, device=concepts_S.device)
        positive_SS, negative_SS = same_SS & ~itself_SS, ~same_SS
        distance_SS = (2.0 - 2.0 * vectors_SD @ vectors_SD.T).clamp_min(0.0).sqrt()
        nearest_S = distance_SS.masked_fill(~negative_SS, torch.inf).amin(1)
        farthest_S = distance_SS.masked_fill(~positive_SS, -torch.inf).amax(1)
        return (
            positive_SS & (distance_SS + margin >= nearest_S[:, None]),
            negative_SS & (distance_SS <= farthest_S[:, None] + margin),
        )


def multi_similarity_loss(vectors_SD: Tensor, concepts_S: Tensor, config: MultiSimilarityConfig) -> Tensor:
    """Return the loss of a batch, float32 ().

        1/S Σ_i [ 1/α log(1 + Σ_{n in N_i} e^{α(s_in - ε)}) + 1/β log(1 + Σ_{p in P_i} e^{-β(s_ip - ε)}) ]

    P_i and N_i are the hard positives and negatives of vector i, s the cosines. An anchor without hard pairs adds 0.

    Args:
        vectors_SD: of unit length.
        concepts_S: int64, the concept that each vector names.
    """
    positive_SS, negative_SS = hard_pairs(vectors_SD, concepts_S, config.margin)
    similarity_SS = vectors_SD @ vectors_SD.T
    away_S = _log_one_plus(config.negative_scale * (similarity_SS - config.offset), negative_SS)
    together_S = _log_one_plus(-config.positive_scale * (similarity_SS - config.offset), positive_SS)
    return (away_S / config.negative_scale + together_S / config.positive_scale).mean()


def _log_one_plus(powers_SS: Tensor, chosen_SS: Tensor) -> Tensor:
    """Return log(1 + Σ e^power) over the chosen pairs of each row."""
    kept_SS = powers_SS.masked_fill(~chosen_SS, -torch.inf)
    # A column of zeros is the 1; with it no row is empty, so no row has a NaN as its gradient.
    return torch.cat([kept_SS.new_zeros(len(kept_SS), 1), kept_SS], 1).logsumexp(1)
