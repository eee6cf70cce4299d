"""Tiny knowledge models with random weights, over a made-up graph of symptoms and diseases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.infusion.config import InfusionConfig
from models.infusion.infusion import KnowledgeInfusion
from models.knowledge import KnowledgeArrays
from models.knowledge_model.folder import save_model
from models.knowledge_model.network import KnowledgeNetwork
from models.knowledge_model.source import KnowledgeSource
from models.weights.pretrained import save_encoder
from tests.support.graphs.knowledge_folders import save_knowledge

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 2,
    "intermediate_size": 64,
    "max_positions": 40,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
NEIGHBOURS = [
    [(1, [(0, 1)]), (2, [(1, -1)]), (4, [(0, 1)])],
    [(0, [(0, -1)])],
    [(0, [(1, 1)]), (3, [(1, 1), (0, 1)])],
    [(2, [(1, -1)])],
    [(0, [(0, -1)]), (1, [(1, 1)])],
    [],
]
"""Of six entities; the last has none."""


def save_arrays(folder: Path, width: int = 4) -> Path:
    """Knowledge arrays of the graph."""
    folder.mkdir(parents=True, exist_ok=True)
    return save_knowledge(folder, NEIGHBOURS, relations=2, width=width, types=[0, 1, 0, 1, 2, -1])


def make_network(knowledge: KnowledgeArrays | None, seed: int = 0, layer: int = 2, **change: Any) -> KnowledgeNetwork:
    """A network whose knowledge visibly changes states."""
    sizes = EncoderConfig(**{**SIZES, "initializer_range": 0.15, **change})
    infusion = InfusionConfig(
        hidden_size=sizes.hidden_size, entity_size=4, layer=layer, neighbours=2, initializer_range=0.3
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return KnowledgeNetwork(Encoder(sizes), KnowledgeInfusion(infusion), knowledge)


def save_both(store: Path, seed: int = 0, **change: Any) -> Path:
    """The two forms beside each other, and their knowledge, as they are in an artifact store; returns form (b)."""
    arrays = save_arrays(store / "knowledge_arrays" / "k1")
    knowledge = KnowledgeArrays.open(arrays)
    network = make_network(knowledge, seed, **change)
    plain = store / "export" / "e1"
    save_encoder(network.encoder, plain)
    save_model(network, KnowledgeSource.of(knowledge, arrays), plain / "knowledge_model")
    return plain / "knowledge_model"
