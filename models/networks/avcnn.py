"""AVCNN: filters of four widths, and three views of what they find."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.convolution import Convolution
from models.networks.parts.network import Classifier

FILTERS, WIDTHS, DENSE = 300, (1, 2, 3, 4), 144


class Avcnn(Classifier):
    """The maximum, the attention-weighted mean and the mean of each width's answers; all widths share the attention."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(3 * len(WIDTHS) * FILTERS, num_labels, rate, units=DENSE)
        self.convolutions = nn.ModuleList(Convolution(embedding_dim, FILTERS, width) for width in WIDTHS)
        self.attention = views.Attention(FILTERS)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_TD = self.drop_channels(x_TD, layout, noise)
        found = [torch.relu(convolution(x_TD, layout)) for convolution in self.convolutions]
        return torch.cat(
            [view(x_TF, layout) for view in (views.maximum, self.attention, views.mean) for x_TF in found], 1
        )
