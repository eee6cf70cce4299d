"""The full knowledge model for transformers: importing this module registers it with AutoConfig and AutoModel.

    import models.smedbert
    model = AutoModel.from_pretrained("path/to/knowledge_model")
    states = model(**tokenizer(texts, return_tensors="pt", padding=True), mentions=mentions).last_hidden_state

Its knowledge is found as models/knowledge_model/source.py says, or given: `from_pretrained(folder, knowledge=FOLDER)`.
`knowledge=False` runs the encoder without knowledge; its states are those of the plain BERT beside it. Mentions come in
as integers; tasks/knowledge/names.py finds them in texts.

Shape legend: B texts, L tokens of the longest, T tokens of all, D hidden size, N mentions of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from models.encoder.layout import Layout
from models.encoder.network import Encoder, initialise
from models.infusion.infusion import KnowledgeInfusion
from models.knowledge_model.config import SMedBertModelConfig
from models.knowledge_model.folder import read_settings
from models.knowledge_model.network import KnowledgeNetwork
from models.knowledge_model.source import GivenKnowledge, open_knowledge

__all__ = ["SMedBertModel", "SMedBertModelConfig"]


class SMedBertModel(PreTrainedModel):
    """An encoder with knowledge of the entities that a text mentions, infused after one of its layers.

    Args:
        knowledge: folder of the knowledge arrays that the model was trained with, or the arrays; None: look for them;
            False: run without.

    Raises:
        UserError: there is no knowledge, or it is of another graph or training; the message names both.
    """

    config_class = SMedBertModelConfig
    base_model_prefix = "smedbert"

    def __init__(self, config: SMedBertModelConfig, knowledge: GivenKnowledge = None) -> None:
        super().__init__(config)
        text, infusion, source = read_settings(config.to_dict())
        opened = open_knowledge(Path(config.name_or_path or "."), source, knowledge)
        config.knowledge_source = opened.source.to_json()
        self.network = KnowledgeNetwork(Encoder(text), KnowledgeInfusion(infusion), opened.arrays)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the word table."""
        return self.network.encoder.embeddings.word

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mentions: Sequence[Any] | None = None,
        **ignored: Any,
    ) -> BaseModelOutput:
        """Return the last hidden states (B, L, D), zeros at padding.

        Args:
            input_ids: int64 (B, L).
            attention_mask: (B, L), 1 for tokens and 0 for the padding after them; None: no padding.
            token_type_ids: int64 (B, L), None: all 0.
            mentions: for each text integers (N, 4): first token, the token after the last, row of the entity, number
                of the surface. None: no text has any.

        Raises:
            ValueError: padding stands before a token, or there are not mentions for each text.
        """
        rows, longest = input_ids.shape
        mask_BL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        kept_BL = mask_BL.bool()
        lengths = kept_BL.sum(1).tolist()
        if (kept_BL != (torch.arange(longest, device=kept_BL.device) < kept_BL.sum(1, keepdim=True))).any():
            raise ValueError("padding must follow a text's tokens; set the tokenizer's padding_side to 'right'")
        layout = Layout.from_lengths(lengths)
        types_T = None if token_type_ids is None else token_type_ids[kept_BL]
        mentions_M4 = None if mentions is None else _packed(mentions, lengths)
        states_TD = self.network(input_ids[kept_BL], layout.to(input_ids.device), types_T, mentions_M4)
        states_BLD = states_TD.new_zeros(rows, longest, states_TD.shape[1])
        states_BLD[kept_BL] = states_TD
        return BaseModelOutput(last_hidden_state=states_BLD)

    def _init_weights(self, module: nn.Module) -> None:
        initialise(module, self.network.encoder.config.initializer_range)


def _packed(mentions: Sequence[Any], lengths: Sequence[int]) -> Tensor:
    """Return the mentions of all texts with tokens counted through the batch, int64 (M, 4)."""
    if len(mentions) != len(lengths):
        raise ValueError(
            f"mentions are for {len(mentions)} texts of {len(lengths)}; give an empty list for one without"
        )
    parts = [np.asarray(one, dtype=np.int64).reshape(-1, 4) for one in mentions]
    starts = np.cumsum([0, *lengths[:-1]])
    for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if ((part[:, 0] < 0) | (part[:, 0] >= part[:, 1]) | (part[:, 1] > length)).any():
            raise ValueError(f"text {number}: mentions must begin before they end, within its {length} tokens")
    moved = [part + np.array([start, start, 0, 0]) for part, start in zip(parts, starts, strict=True)]
    return torch.from_numpy(np.concatenate(moved))


AutoConfig.register(SMedBertModelConfig.model_type, SMedBertModelConfig)
AutoModel.register(SMedBertModelConfig, SMedBertModel)
