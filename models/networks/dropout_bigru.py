"""Dropout-BiGRU: two BiGRUs with dropout before each, and three views of the second one's states."""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.network import BETWEEN_SITE, Classifier
from models.networks.parts.recurrent import Gru

UNITS, DENSE = 64, 72


class DropoutBiGru(Classifier):
    """The last states, their maximum and their mean. With the last states alone the published counts are not met."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(3 * 2 * UNITS, num_labels, rate, units=DENSE)
        self.first = Gru(embedding_dim, UNITS, both_ways=True)
        self.second = Gru(self.first.features, UNITS, both_ways=True)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_TF = self.first(self.drop_channels(x_TD, layout, noise), layout)
        x_TF = self.second(self.drop(x_TF, layout, noise, BETWEEN_SITE), layout)
        return torch.cat([self.second.last(x_TF, layout), views.maximum(x_TF, layout), views.mean(x_TF, layout)], 1)
