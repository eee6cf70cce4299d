"""DPCNN: a deep pyramid of convolutions (Johnson and Zhang, 2017), with 250 filters of width 3.

Each block halves the text by a maximum over three tokens and adds what two convolutions make of it; activations come
before the products. The published parameter counts amount to ten convolutions, so there are five blocks, the first of
them at full length, whatever the text's length. A text that has shrunk to one position stays there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.convolution import Convolution, max_pool
from models.networks.parts.network import Classifier

FILTERS, WIDTH, BLOCKS, POOL, DENSE = 250, 3, 5, 3, 256


class Dpcnn(Classifier):
    """The maximum over what remains of the text after the last block."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(FILTERS, num_labels, rate, units=DENSE)
        self.regions = Convolution(embedding_dim, FILTERS, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(BLOCKS))

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        x_TF = self.regions(x_TD, layout)
        for number, block in enumerate(self.blocks):
            if number:
                x_TF, layout = max_pool(x_TF, layout, POOL)
            x_TF = block(x_TF, layout)
        return views.maximum(x_TF, layout)


class _Block(nn.Module):
    """x + W relu(W relu(x))"""

    def __init__(self) -> None:
        super().__init__()
        self.first = Convolution(FILTERS, FILTERS, WIDTH)
        self.second = Convolution(FILTERS, FILTERS, WIDTH)

    def forward(self, x_TF: Tensor, layout: Layout) -> Tensor:
        return x_TF + self.second(torch.relu(self.first(torch.relu(x_TF), layout)), layout)
