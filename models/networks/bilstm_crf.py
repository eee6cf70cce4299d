"""BiLSTM-CRF: BiLSTM, a dense layer with 512 units, and a CRF over the tags (CMedLMs, Table 7)."""

from __future__ import annotations

from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.bilstm import UNITS
from models.networks.parts.network import CrfTagger
from models.networks.parts.recurrent import Lstm


class BiLstmCrf(CrfTagger):
    """Emissions from the states of each token."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(2 * UNITS, num_labels, rate)
        self.lstm = Lstm(embedding_dim, UNITS, both_ways=True)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `CrfTagger.features`."""
        return self.lstm(x_TD, layout)
