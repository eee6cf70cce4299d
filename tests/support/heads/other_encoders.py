"""Two small encoders of other kinds than ours: a network over word vectors, and one that reads mentions of entities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.encoder.config import EncoderConfig
from models.encoder.network import Encoder
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.encoders import KINDS, EncoderSizes, PlainEncoder, TaskEncoder
from models.heads.examples import TokenSequence


def register(patch: pytest.MonkeyPatch) -> None:
    """Register both kinds, as a line each in `KINDS` would."""
    for kind in (VectorEncoder, MentionEncoder):
        patch.setitem(KINDS, kind.model_type, kind.load)


class VectorEncoder(nn.Module, TaskEncoder):
    """Frozen vectors of tokens, each mixed with the mean of its sequence, and with its features if there are any."""

    model_type = "toy-vectors"

    def __init__(self, vectors_VE: Tensor, width: int, features: int = 0) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors_VE, requires_grad=False)
        self.own = nn.Linear(vectors_VE.shape[1], width)
        self.mean = nn.Linear(vectors_VE.shape[1], width)
        self.features = nn.Linear(features, width, bias=False) if features else None

    @property
    def sizes(self) -> EncoderSizes:
        return EncoderSizes(
            vocab_size=len(self.vectors), hidden_size=self.own.out_features, max_positions=64, initializer_range=0.1
        )

    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        lengths_S = torch.tensor(batch.layout.lengths)
        owner_T = torch.repeat_interleave(torch.arange(len(lengths_S)), lengths_S)
        words_TE = self.vectors[batch.input_ids]
        sums_SE = words_TE.new_zeros(len(lengths_S), words_TE.shape[1]).index_add(0, owner_T, words_TE)
        x_TD = self.own(words_TE) + self.mean(sums_SE / lengths_S[:, None])[owner_T]
        if self.features is not None:
            x_TD = x_TD + self.features(batch.features)
        return torch.tanh(x_TD)

    def save(self, folder: Path) -> None:
        features = 0 if self.features is None else self.features.in_features
        write(folder, {"model_type": self.model_type, "features": features}, self)

    @classmethod
    def load(cls, folder: Path, dropout: float | None) -> VectorEncoder:
        config, state = read(folder)
        encoder = cls(state["vectors"], len(state["own.bias"]), config["features"])
        encoder.load_state_dict(state)
        return encoder


class MentionEncoder(nn.Module, TaskEncoder):
    """Our encoder, with a vector per entity added where the text names it; it finds the names itself."""

    model_type = "toy-mentions"

    def __init__(self, text: Encoder, names: Sequence[Sequence[int]]) -> None:
        """`names`: token ids of each entity's name."""
        super().__init__()
        self.text = text
        self.names = [list(map(int, name)) for name in names]
        self.entities = nn.Embedding(len(self.names), text.config.hidden_size)

    @property
    def sizes(self) -> EncoderSizes:
        return PlainEncoder(self.text).sizes

    def look_up(self, sequences: Sequence[TokenSequence]) -> Sequence[TokenSequence]:
        return [one if one.mentions is not None else replace(one, mentions=self._found(one)) for one in sequences]

    def _found(self, sequence: TokenSequence) -> np.ndarray:
        ids = sequence.input_ids.tolist()
        rows = [
            (start, start + len(name), entity, 0)
            for entity, name in enumerate(self.names)
            for start in range(len(ids) - len(name) + 1)
            if ids[start : start + len(name)] == name
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        hidden_TD = PlainEncoder(self.text).states(batch, noise)
        if batch.mentions is None:
            return hidden_TD
        added_TD = torch.zeros_like(hidden_TD)
        for start, end, entity, _ in batch.mentions.tolist():
            added_TD[start:end] += self.entities.weight[entity]
        # [CLS] reads the mean of its sequence's additions.
        lengths = list(batch.layout.lengths)
        means_SD = torch.stack([part.mean(0) for part in added_TD.split(lengths)])
        return hidden_TD + added_TD.index_add(0, batch.layout.firsts, means_SD)

    def save(self, folder: Path) -> None:
        sizes = {name: getattr(self.text.config, name) for name in SIZES}
        write(folder, {"model_type": self.model_type, "names": self.names, "sizes": sizes}, self)

    @classmethod
    def load(cls, folder: Path, dropout: float | None) -> MentionEncoder:
        config, state = read(folder)
        rates = {} if dropout is None else {"hidden_dropout": dropout, "attention_dropout": dropout}
        encoder = cls(Encoder(EncoderConfig(**config["sizes"] | rates)), config["names"])
        encoder.load_state_dict(state)
        return encoder

    def fresh(self, seed: int) -> MentionEncoder:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return MentionEncoder(Encoder(self.text.config), self.names)


SIZES = (
    "vocab_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "intermediate_size",
    "max_positions",
    "hidden_dropout",
    "attention_dropout",
)


def write(folder: Path, config: dict[str, Any], encoder: nn.Module) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(
        {name: tensor.contiguous() for name, tensor in encoder.state_dict().items()}, folder / "model.safetensors"
    )


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config, load_file(folder / "model.safetensors")
