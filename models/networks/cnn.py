"""CNN: filters of width 5, the maximum over the text, and two dense layers."""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.convolution import Convolution
from models.networks.parts.network import Classifier

FILTERS, WIDTH, DENSE = 128, 5, 64


class Cnn(Classifier):
    """The strongest answer of each filter."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(FILTERS, num_labels, rate, units=DENSE)
        self.convolution = Convolution(embedding_dim, FILTERS, WIDTH)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        return views.maximum(torch.relu(self.convolution(x_TD, layout)), layout)
