"""Configuration of the full knowledge model, `model_type` "smedbert", in transformers' form."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from transformers import PreTrainedConfig

from models.encoder.config import EncoderConfig
from models.infusion.config import InfusionConfig
from models.knowledge_model.network import ARCHITECTURE, MODEL_TYPE
from models.knowledge_model.source import KnowledgeSource


class SMedBertModelConfig(PreTrainedConfig):
    """Sizes of the encoder and of the infusion, and which knowledge they were trained with.

    The three are plain values for JSON: fields of `EncoderConfig`, of `InfusionConfig` and of `KnowledgeSource`.
    """

    model_type = MODEL_TYPE

    text: dict[str, Any] | None = None
    infusion: dict[str, Any] | None = None
    knowledge_source: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, text: EncoderConfig, infusion: InfusionConfig, source: KnowledgeSource | None = None
    ) -> SMedBertModelConfig:
        """Return the configuration of a model; what changes speed alone is not in it."""
        # Added rows of the word table are not exported, and neither are settings of the training.
        sizes = replace(text, vocab_multiple=1, checkpoint_activations=False, compile_layers=False)
        knowledge = None if source is None else source.to_json()
        return cls(
            text=asdict(sizes), infusion=asdict(infusion), knowledge_source=knowledge, architectures=[ARCHITECTURE]
        )

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return int((self.text or {})["vocab_size"])

    @property
    def hidden_size(self) -> int:
        """Width of the states."""
        return int((self.text or {})["hidden_size"])
