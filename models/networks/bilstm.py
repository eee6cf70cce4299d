"""BiLSTM: an LSTM with 512 units in both directions (CMedLMs, Table 5)."""

from __future__ import annotations

from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts.network import Classifier, Tagger
from models.networks.parts.recurrent import Lstm

UNITS = 512


class BiLstmTagger(Tagger):
    """A dense layer on the states of each token."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(2 * UNITS, num_labels, rate)
        self.lstm = Lstm(embedding_dim, UNITS, both_ways=True)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Tagger.features`."""
        return self.lstm(x_TD, layout)


class BiLstmClassifier(Classifier):
    """A dense layer on the last state of each direction."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(2 * UNITS, num_labels, rate)
        self.lstm = Lstm(embedding_dim, UNITS, both_ways=True)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        return self.lstm.last(self.lstm(x_TD, layout), layout)
