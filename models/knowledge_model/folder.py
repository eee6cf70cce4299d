"""The folder of a knowledge model: config.json and model.safetensors. Its knowledge is elsewhere (source.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.infusion.config import InfusionConfig
from models.infusion.infusion import KnowledgeInfusion
from models.knowledge_model.network import KnowledgeNetwork
from models.knowledge_model.source import GivenKnowledge, KnowledgeSource, open_knowledge
from models.weights.convert import load_from_transformers, to_transformers
from models.weights.pretrained import CONFIG_FILE, SAFETENSORS_FILE, check_weights_suffice, write_folder

if TYPE_CHECKING:  # transformers takes half a second to import
    from models.knowledge_model.config import SMedBertModelConfig

ROOT = "network."
"""Beginning of the weights' names, as `SMedBertModel` calls the network."""


class KnowledgeSettings(NamedTuple):
    """Contents of a knowledge model's config.json."""

    text: EncoderConfig
    infusion: InfusionConfig
    source: KnowledgeSource


def read_settings(config: Mapping[str, Any]) -> KnowledgeSettings:
    """Return the settings in the content of config.json. Raises ValueError if they are damaged."""
    try:
        text = EncoderConfig(**config["text"])
        infusion = InfusionConfig(**config["infusion"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"its sizes are damaged: {error}") from error
    return KnowledgeSettings(text, infusion, KnowledgeSource.from_json(config.get("knowledge_source")))


class LoadedModel(NamedTuple):
    """A network, and where its knowledge comes from."""

    network: KnowledgeNetwork
    source: KnowledgeSource


def load_model(folder: str | Path, dropout: float | None = None, knowledge: GivenKnowledge = None) -> LoadedModel:
    """Load the model of a folder, in float32 on the CPU, with its knowledge.

    Args:
        dropout: rate of the encoder's hidden states and attention; None: those of config.json.
        knowledge: see `GivenKnowledge`.

    Raises:
        UserError: a file or the knowledge is missing, damaged or does not fit; the message names it.
    """
    path = Path(folder)
    try:
        config = json.loads(small_text(path / CONFIG_FILE))
        text, infusion, source = read_settings(config)
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path / CONFIG_FILE} cannot be read: {error}. Copy the whole folder again.") from error
    if dropout is not None:
        text = replace(text, hidden_dropout=dropout, attention_dropout=dropout)
    opened = open_knowledge(path, source, knowledge)
    try:
        state = load_file(path / SAFETENSORS_FILE)
        check_weights_suffice(path, text, state.values())
        network = KnowledgeNetwork(Encoder(text), KnowledgeInfusion(infusion), opened.arrays)
        network.load_state_dict({name.removeprefix(ROOT): value.float() for name, value in state.items()})
    except Exception as error:  # safetensors documents no exceptions for a damaged file
        raise UserError(
            f"{path}: {SAFETENSORS_FILE} is missing, damaged or not of this {CONFIG_FILE}: {error}. Copy the whole "
            "folder again."
        ) from error
    return LoadedModel(network, opened.source)


def exported(
    encoder: Encoder, infusion: KnowledgeInfusion, source: KnowledgeSource | None = None
) -> tuple[SMedBertModelConfig, dict[str, Tensor]]:
    """Return the configuration and the weights of a knowledge model as `SMedBertModel` has them, detached.

    The word table is cut to the true vocabulary. Without a source the configuration lacks it, and the folder does not
    load.
    """
    from models.knowledge_model.config import SMedBertModelConfig

    config = SMedBertModelConfig.of(encoder.config, infusion.config, source)
    assert config.text is not None
    plain = Encoder(EncoderConfig(**config.text))
    load_from_transformers(plain, to_transformers(encoder))
    network = KnowledgeNetwork(plain, infusion, None)
    return config, {f"{ROOT}{name}": value.detach().clone() for name, value in network.state_dict().items()}


def save_model(network: KnowledgeNetwork, source: KnowledgeSource, folder: str | Path) -> None:
    """Write config.json and model.safetensors for `load_model` and `SMedBertModel`; the folder is created."""
    config, state = exported(network.encoder, network.infusion, source)
    write_folder({name: tensor.float() for name, tensor in state.items()}, config, folder)


def fresh(network: KnowledgeNetwork, seed: int) -> KnowledgeNetwork:
    """Return a network of the same sizes and knowledge with fresh weights from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        infusion = KnowledgeInfusion(network.infusion.config)
        return KnowledgeNetwork(Encoder(network.encoder.config), infusion, network.knowledge)
