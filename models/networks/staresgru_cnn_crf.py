"""StaResGRU-CNN-CRF: stacked BiGRUs with residual connections, a dense layer, and a CRF (CMedLMs, Table 7).

The paper does not say what its pooling becomes in tagging, where every token needs features of its own. Here nothing is
pooled.
"""

from __future__ import annotations

from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts.network import CrfTagger
from models.networks.staresgru_cnn import UNITS, StackedResidualGru


class StaResGruCnnCrf(CrfTagger):
    """Emissions from the states of each token."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(2 * UNITS, num_labels, rate)
        self.stack = StackedResidualGru(embedding_dim)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `CrfTagger.features`."""
        return self.stack(x_TD, layout)
