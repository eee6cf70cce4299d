"""StaResGRU-CNN: stacked BiGRUs with residual connections, and the maximum over the text (CMedLMs, section 3).

A residual connection adds a layer's input to its output (equation 8 with the factors 1, for each of equations 5 and 6),
and has no parameters of its own (section 3.1.1). So it needs equal widths. The second layer has them, 1,024 in and out.
The first has none, unless embeddings happen to be as wide: it reads them directly, with nothing to skip.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.encoder.layout import Layout
from models.encoder.randomness import SequenceNoise
from models.networks.parts import views
from models.networks.parts.network import Classifier
from models.networks.parts.recurrent import Gru

LAYERS, UNITS, DENSE = 2, 512, 512


class StackedResidualGru(nn.Module):
    """Two BiGRUs, 512 units in each direction."""

    def __init__(self, embedding_dim: int) -> None:
        super().__init__()
        widths = (embedding_dim, *[2 * UNITS] * (LAYERS - 1))
        self.layers = nn.ModuleList(Gru(width, UNITS, both_ways=True) for width in widths)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        """Return (T, 1024)."""
        for layer in self.layers:
            out_TF = layer(x_TD, layout)
            x_TD = out_TF + x_TD if out_TF.shape == x_TD.shape else out_TF
        return x_TD


class StaResGruCnn(Classifier):
    """The maximum of each feature over the text (equation 9), and dense layers (equation 10)."""

    def __init__(self, embedding_dim: int, num_labels: int, rate: float) -> None:
        super().__init__(2 * UNITS, num_labels, rate, units=DENSE)
        self.stack = StackedResidualGru(embedding_dim)

    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """See `Classifier.features`."""
        return views.maximum(self.stack(x_TD, layout), layout)
