"""Dropout-AVRNN: two BiGRUs with dropout before each, and four views of the second one's states."""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.network import BETWEEN_SITE, Classifier
from models.networks.parts.recurrent import Gru

UNITS, DENSE = 56, 128


class DropoutAvrnn(Classifier):
    """The last states, their maximum, their attention-weighted mean and their mean."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(4 * 2 * UNITS, num_labels, rate, units=DENSE)
        self.first = Gru(embedding_dim, UNITS, both_ways=True)
        self.second = Gru(self.first.features, UNITS, both_ways=True)
        self.attention = views.Attention(self.second.features)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_TF = self.first(self.drop_channels(x_TD, layout, noise), layout)
        x_TF = self.second(self.drop(x_TF, layout, noise, BETWEEN_SITE), layout)
        seen = [
            self.second.last(x_TF, layout),
            views.maximum(x_TF, layout),
            self.attention(x_TF, layout),
            views.mean(x_TF, layout),
        ]
        return torch.cat(seen, 1)
