"""The three heads of EMBERT (sections 3.1 to 3.3). Matrices have no bias where the paper's equations have none.

Shape legend: N entities or tokens that a head judges, D hidden size, E embedding size, P width of a position embedding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.encoder.config import EncoderConfig
from models.encoder.linear import Linear
from models.encoder.network import initialise


class ConsistencyHead(nn.Module):
    """Eq. 1 to 3: does an entity agree with its context? Only the states beside the entity are read."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.dense = Linear(2 * width, width, bias=False)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.output = Linear(width, 2, bias=False)
        self.apply(lambda module: initialise(module, config.initializer_range))

    def forward(self, before_ND: Tensor, after_ND: Tensor) -> Tensor:
        """Return float32 logits (N, 2), inconsistent and consistent, from x_(s-1) and x_(e+1)."""
        h_ND = self.norm(F.gelu(self.dense(torch.cat([before_ND, after_ND], 1))).float())
        return self.output(h_ND).float()


class SegmentationHead(nn.Module):
    """Eq. 4: is a token the last one of a sub-entity?"""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.dense = Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.mix = Linear(width, width)
        self.output = Linear(width, 2, bias=False)
        self.apply(lambda module: initialise(module, config.initializer_range))

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """Return float32 logits (N, 2), inside and end of a sub-entity."""
        h_ND = self.norm(F.gelu(self.dense(hidden_ND)).float())
        return self.output(torch.tanh(self.mix(h_ND))).float()


class TermHead(nn.Module):
    """Eq. 6 and 7: a token of one term of an entity from the first and the last state of the other term.

    It serves both directions, atomic from adjective and adjective from atomic, with the same weights. Eq. 6 and Eq. 7
    disagree about the position embedding; here it is that of the token's offset inside its own term.
    """

    def __init__(self, config: EncoderConfig, positions: int, position_size: int) -> None:
        """`positions`: number of offsets with an embedding of their own; later tokens share the last one."""
        super().__init__()
        width = config.hidden_size
        self.position = nn.Embedding(positions, position_size)
        self.first = Linear(2 * width + position_size, width, bias=False)
        self.first_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.second = Linear(width, config.embedding_width, bias=False)
        self.second_norm = nn.LayerNorm(config.embedding_width, eps=config.layer_norm_eps)
        self.apply(lambda module: initialise(module, config.initializer_range))

    def forward(self, first_ND: Tensor, last_ND: Tensor, offsets_N: Tensor) -> Tensor:
        """Return y (N, E), to be multiplied with the word embeddings (Eq. 8)."""
        place_NP = self.position(offsets_N.clamp(max=self.position.num_embeddings - 1))
        h_ND = torch.cat([first_ND, last_ND, place_NP], 1)
        h_ND = self.first_norm(F.gelu(self.first(h_ND)).float())
        return self.second_norm(F.gelu(self.second(h_ND)).float())
