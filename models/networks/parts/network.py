"""Base classes of the networks: the dropout and the dense layers after what each of them computes itself.

Shape legend: T tokens laid end to end, S sequences, D width of the embeddings, F features, C labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.encoder.dropout import draw_mask, dropout
from models.encoder.layout import Layout
from models.encoder.linear import Linear
from models.encoder.randomness import SequenceNoise
from models.networks.parts.crf import ConditionalRandomField

DROPOUT = 0.4
"""Rate of dropout before the dense layers (CMedLMs, Table 5)."""
CRF_UNITS = 512
"""Units of the dense layer before a CRF's emissions (CMedLMs, Table 5)."""
LAST_SITE, SPATIAL_SITE, BETWEEN_SITE = range(3)
"""Places of dropout in a network, which fork its noise."""


class Network(nn.Module, ABC):
    """A network over the embeddings of packed sequences, ending in scores of the labels.

    Subclasses call `super().__init__` first, and then build what they compute features with.
    """

    tags: ClassVar[bool]
    """True if each token has scores, False if each sequence has."""

    def __init__(self, rate: float) -> None:
        """`rate`: dropout before the last dense layers, and wherever else the network drops out."""
        super().__init__()
        self.rate = rate
        self.crf: ConditionalRandomField | None = None
        """Transitions between the tags that the scores are emissions of; None if tokens are tagged one by one."""

    @abstractmethod
    def forward(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None = None) -> Tensor:
        """Return scores float32: (T, C) of each token from a tagger, or (S, C) of each sequence from a classifier.

        Rows are in the layout's order. What shares the batch does not change a sequence's scores, up to rounding.

        Args:
            x_TD: embeddings, float32.
            noise: streams of dropout in training on the CPU; without them, torch's default generator draws.
        """

    def padded(self, x_SLD: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the scores of padded embeddings, whatever the padding is.

        (S, C) from a classifier; (S, L, C) from a tagger, with zeros at padding.
        """
        layout = Layout.from_lengths(lengths).to(x_SLD.device)
        rows_T, places_T = owners(layout), layout.positions
        scores_NC = self(x_SLD[rows_T, places_T], layout)
        if not self.tags:
            return scores_NC
        scores_SLC = scores_NC.new_zeros(*x_SLD.shape[:2], scores_NC.shape[1])
        return scores_SLC.index_put((rows_T, places_T), scores_NC)

    def drop(self, x_NF: Tensor, layout: Layout, noise: SequenceNoise | None, site: int) -> Tensor:
        """Return x after dropout in training; `layout` says which rows belong to which sequence."""
        if not self.training:
            return x_NF
        return dropout(x_NF, self.rate, draw_mask(x_NF, self.rate, layout, noise.fork(site) if noise else None))

    def drop_channels(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """Return x after spatial dropout in training: a channel is dropped in all tokens of a sequence, or in none."""
        if not self.training:
            return x_TD
        ones_SD = self.drop(x_TD.new_ones(len(layout.lengths), x_TD.shape[1]), alone(layout), noise, SPATIAL_SITE)
        return x_TD * ones_SD[owners(layout)]


class Tagger(Network):
    """Dropout and a dense layer over the features of each token."""

    tags = True

    def __init__(self, features: int, num_labels: int, rate: float) -> None:
        super().__init__(rate)
        self.output = Linear(features, num_labels)

    @abstractmethod
    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """Return the features (T, F) of each token."""

    def forward(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None = None) -> Tensor:
        """See `Network.forward`."""
        return self.output(self.drop(self.features(x_TD, layout, noise), layout, noise, LAST_SITE)).float()


class CrfTagger(Network):
    """Dropout, a dense layer with tanh, and emissions for a CRF over the features of each token."""

    tags = True

    def __init__(self, features: int, num_labels: int, rate: float) -> None:
        super().__init__(rate)
        self.dense = Linear(features, CRF_UNITS)
        self.output = Linear(CRF_UNITS, num_labels)
        self.crf = ConditionalRandomField(num_labels)

    @abstractmethod
    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """Return the features (T, F) of each token."""

    def forward(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None = None) -> Tensor:
        """Return the emissions; see `Network.forward`."""
        features_TF = self.drop(self.features(x_TD, layout, noise), layout, noise, LAST_SITE)
        return self.output(torch.tanh(self.dense(features_TF))).float()


class Classifier(Network):
    """A dense layer with ReLU (some networks have none), dropout, and a dense layer over each sequence's features."""

    tags = False

    def __init__(self, features: int, num_labels: int, rate: float, units: int | None = None) -> None:
        """`units`: units of the hidden dense layer; None: without one."""
        super().__init__(rate)
        self.hidden = None if units is None else Linear(features, units)
        self.output = Linear(units or features, num_labels)

    @abstractmethod
    def features(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None) -> Tensor:
        """Return the features (S, F) of each sequence."""

    def forward(self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None = None) -> Tensor:
        """See `Network.forward`."""
        features_SF = self.features(x_TD, layout, noise)
        if self.hidden is not None:
            features_SF = torch.relu(self.hidden(features_SF))
        return self.output(self.drop(features_SF, alone(layout), noise, LAST_SITE)).float()


def alone(layout: Layout) -> Layout:
    """Return the layout of one row per sequence, on the CPU."""
    return Layout.from_lengths([1] * len(layout.lengths))


def owners(layout: Layout) -> Tensor:
    """Return int64 (T,): the sequence of each token."""
    return torch.repeat_interleave(layout.index_offsets.diff(), output_size=layout.total)
