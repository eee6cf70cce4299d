"""Tiny knowledge models with random weights, over a made-up graph of the toy tasks' symptoms and diseases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from infra import schemas
from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.infusion.config import InfusionConfig
from models.infusion.infusion import KnowledgeInfusion
from models.knowledge import KnowledgeArrays
from models.knowledge_model.folder import save_model
from models.knowledge_model.network import KnowledgeNetwork
from models.knowledge_model.source import KnowledgeSource
from models.weights.pretrained import save_encoder
from tasks.knowledge.names import save_names
from tests.support.graphs.knowledge_folders import save_knowledge
from tests.support.heads.toy_task import DISEASES, SYMPTOMS
from tests.support.text.tokenizers import VOCABULARY, save_ours

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
NAMES = (*SYMPTOMS, *DISEASES)
"""Of the entities, by row."""
GRAPH = ("fuse_graphs", "0" * 32)


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
    save_model(network, KnowledgeSource.of(knowledge, "knowledge_arrays", "k1"), plain / "knowledge_model")
    return plain / "knowledge_model"


def save_text_encoder(store: Path, **change: Any) -> Path:
    """Form (b) with the tokeniser and the names of the toy tasks; texts of up to 64 tokens."""
    folder = save_both(store, **{"vocab_size": len(VOCABULARY), "max_positions": 64, **change})
    save_names(save_ours(folder), names_table(), GRAPH)
    return folder


def names_table() -> pa.Table:
    """Rows of names.parquet: one name per entity, which is its own."""
    count = len(NAMES)
    columns = {"name": NAMES, "entity": range(count), "surface": [0] * count, "recorded": [True] * count}
    return pa.table({name: list(values) for name, values in columns.items()}, schema=schemas.NAMES)
