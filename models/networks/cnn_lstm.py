"""CNN-LSTM: filters of width 3, and an LSTM in one direction over what they find.

The two tasks have other sizes: 64 filters and 512 units for tagging (CMedLMs, Tables 5 and 6), 32 filters and 100 units
for classification, which their published parameter counts amount to.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts.convolution import Convolution, max_pool
from models.networks.parts.network import Classifier, Tagger
from models.networks.parts.recurrent import Lstm

WIDTH = 3
TAG_FILTERS, TAG_UNITS = 64, 512
FILTERS, UNITS, POOL = 32, 100, 2


class CnnLstmTagger(Tagger):
    """A dense layer on the states of each token; nothing is pooled, as every token has a tag."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(TAG_UNITS, num_labels, rate)
        self.convolution = Convolution(embedding_dim, TAG_FILTERS, WIDTH)
        self.lstm = Lstm(TAG_FILTERS, TAG_UNITS, both_ways=False)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Tagger.features`."""
        return self.lstm(torch.relu(self.convolution(x_TD, layout)), layout)


class CnnLstmClassifier(Classifier):
    """The maximum over every two tokens, and a dense layer on the last state."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(UNITS, num_labels, rate)
        self.convolution = Convolution(embedding_dim, FILTERS, WIDTH)
        self.lstm = Lstm(FILTERS, UNITS, both_ways=False)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_PF, shorter = max_pool(torch.relu(self.convolution(x_TD, layout)), layout, POOL)
        return self.lstm.last(self.lstm(x_PF, shorter), shorter)
