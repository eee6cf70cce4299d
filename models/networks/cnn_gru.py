"""CNN-GRU: as CNN-LSTM for classification, with a GRU."""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.cnn_lstm import FILTERS, POOL, UNITS, WIDTH
from models.networks.parts.convolution import Convolution, max_pool
from models.networks.parts.network import Classifier
from models.networks.parts.recurrent import Gru


class CnnGru(Classifier):
    """The maximum over every two tokens, and a dense layer on the last state."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(UNITS, num_labels, rate)
        self.convolution = Convolution(embedding_dim, FILTERS, WIDTH)
        self.gru = Gru(FILTERS, UNITS, both_ways=False)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_PF, shorter = max_pool(torch.relu(self.convolution(x_TD, layout)), layout, POOL)
        return self.gru.last(self.gru(x_PF, shorter), shorter)
