"""AVRNN: two BiGRUs, and four views of the states of both."""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.network import Classifier
from models.networks.parts.recurrent import Gru

UNITS, DENSE = 60, 144


class Avrnn(Classifier):
    """The last states, their maximum, their attention-weighted mean and their mean, of both layers side by side."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(4 * 4 * UNITS, num_labels, rate, units=DENSE)
        self.first = Gru(embedding_dim, UNITS, both_ways=True)
        self.second = Gru(self.first.features, UNITS, both_ways=True)
        self.attention = views.Attention(self.first.features + self.second.features)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        first_TF = self.first(self.drop_channels(x_TD, layout, noise), layout)
        second_TF = self.second(first_TF, layout)
        both_TF = torch.cat([first_TF, second_TF], 1)
        seen = [
            self.first.last(first_TF, layout),
            self.second.last(second_TF, layout),
            views.maximum(both_TF, layout),
            self.attention(both_TF, layout),
            views.mean(both_TF, layout),
        ]
        return torch.cat(seen, 1)
