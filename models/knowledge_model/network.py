"""An encoder with a graph's knowledge infused after one of its layers, at the tokens of mentions (SMedBERT, sec. 3.3).

The parts are those of pre-training: models/encoder, models/infusion and models/knowledge.py. Mentions come in as
integers. Without mentions, or without knowledge, the states are those of the encoder alone.

Shape legend: T tokens laid end to end, D hidden size, M mentions.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.encoder import inference
from models.encoder.layout import Layout
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.infusion.config import InfusionConfig
from models.infusion.infusion import KnowledgeInfusion
from models.infusion.neighbourhood import Neighbourhood
from models.infusion.spans import Spans
from models.knowledge import KnowledgeArrays

MODEL_TYPE = "smedbert"
"""`model_type` in its config.json."""
ARCHITECTURE = "SMedBertModel"
"""Its class for transformers (models/smedbert.py)."""


class KnowledgeNetwork(nn.Module):
    """`KnowledgeNetwork(encoder, infusion, knowledge)(input_ids_T, layout, type_ids_T, mentions_M4)` -> (T, D)."""

    def __init__(self, encoder: Encoder, infusion: KnowledgeInfusion, knowledge: KnowledgeArrays | None) -> None:
        """`knowledge` None: mentions are not looked at.

        Raises ValueError if the widths of the three differ, or if the encoder does not have the infusion's layer. The
        message names both numbers.
        """
        super().__init__()
        check_sizes(encoder, infusion.config, knowledge)
        self.encoder = encoder
        self.infusion = infusion
        self.knowledge = knowledge

    def forward(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        type_ids_T: Tensor | None = None,
        mentions_M4: Tensor | None = None,
        noise: SequenceNoise | None = None,
    ) -> Tensor:
        """Return hidden states (T, D) of the last layer.

        Args:
            mentions_M4: int64, as in `models.heads.batch.TokenBatch`: first token in the batch, the token after the
                last, row of the entity, number of the surface. They must not overlap.
            noise: as for `Encoder`.

        Raises:
            ValueError: two mentions share a token, or one names a row that the graph does not have.
        """
        noise = self.encoder.default_noise(input_ids_T, layout) if noise is None else noise
        x_TD = self.infused(input_ids_T, layout, type_ids_T, mentions_M4, noise)
        return self._run(x_TD, layout, noise, first=self.infusion.config.layer)

    def infused(
        self,
        input_ids_T: Tensor,
        layout: Layout,
        type_ids_T: Tensor | None,
        mentions_M4: Tensor | None,
        noise: SequenceNoise | None,
        behind: int | None = None,
    ) -> Tensor:
        """Return states (T, D) with knowledge, after `behind` layers in all: by default right after the infusion.

        Arguments and errors are those of `forward`, but there is no default noise.
        """
        layer = self.infusion.config.layer
        if inference.applies(self.encoder):
            x_TD = inference.embed(self.encoder, input_ids_T, layout, type_ids_T)
        else:
            x_TD = self.encoder.embed(input_ids_T, layout, type_ids_T, noise)
        x_TD = self._run(x_TD, layout, noise, last=layer)
        if self.knowledge is not None and mentions_M4 is not None and len(mentions_M4):
            x_TD = self.infusion(x_TD, *self._looked_up(mentions_M4, self.knowledge, x_TD.device))
        return self._run(x_TD, layout, noise, first=layer, last=layer if behind is None else behind)

    def _run(
        self, x_TD: Tensor, layout: Layout, noise: SequenceNoise | None, *, first: int = 0, last: int | None = None
    ) -> Tensor:
        if inference.applies(self.encoder):
            return inference.run(self.encoder, x_TD, layout, first=first, last=last)
        return self.encoder.run(x_TD, layout, noise, first=first, last=last)

    def _looked_up(
        self, mentions_M4: Tensor, knowledge: KnowledgeArrays, device: torch.device
    ) -> tuple[Spans, Neighbourhood]:
        """Return the mentions' tokens and neighbours on a device."""
        firsts, behinds, entities, _ = mentions_M4.cpu().numpy().T
        if entities.min() < 0 or entities.max() >= knowledge.num_entities:
            raise ValueError(
                f"a mention names entity {entities.max() if entities.min() >= 0 else entities.min()}, but the graph "
                f"has rows 0 to {knowledge.num_entities - 1}; link the text to the graph of this model"
            )
        spans = Spans.of(firsts, behinds)
        near = Neighbourhood.of(knowledge, np.ascontiguousarray(entities), self.infusion.config.neighbours)
        return _moved(spans, device), _moved(near, device)


def check_sizes(encoder: Encoder, infusion: InfusionConfig, knowledge: KnowledgeArrays | None) -> None:
    """Raise ValueError if an encoder, an infusion and knowledge do not fit together."""
    if infusion.hidden_size != encoder.config.hidden_size:
        raise ValueError(
            f"the infusion is for states of width {infusion.hidden_size}, the encoder's have "
            f"{encoder.config.hidden_size}; set both to one number"
        )
    if infusion.layer > encoder.config.num_layers:
        raise ValueError(
            f"knowledge is infused after layer {infusion.layer}, but the encoder has {encoder.config.num_layers}; "
            "choose a layer that it has"
        )
    if knowledge is not None and knowledge.entity_vectors.shape[1] != infusion.entity_size:
        raise ValueError(
            f"the infusion is for entities' vectors of width {infusion.entity_size}, the knowledge's have "
            f"{knowledge.entity_vectors.shape[1]}; give the knowledge that it was trained with"
        )


def _moved(some: Any, device: torch.device) -> Any:
    """Return a dataclass with its tensors on a device."""
    values = {one.name: getattr(some, one.name) for one in fields(some)}
    return replace(some, **{name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)})
