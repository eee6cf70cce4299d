"""A toy objective that reads mentions and knowledge: it tells an entity's type by its neighbours' vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import objectives
from models.batch import PackedBatch, field_of
from models.encoder.layout import Layout
from models.knowledge import KnowledgeArrays
from models.objectives.base import Outcome, Start, Term, TermwiseObjective, ratio
from models.objectives.config import ObjectiveConfig
from models.training.columns import MENTIONS, WORDS, Column


@dataclass(frozen=True, kw_only=True)
class KnowingConfig(ObjectiveConfig):
    """Sizes."""

    vocab_size: int
    hidden_size: int = 8
    max_positions: int = 64
    types: int = 2
    width: int = 4
    neighbours: int = 2

    def resources(self) -> tuple[str, ...]:
        """The graph."""
        return ("knowledge",)


@dataclass(frozen=True)
class KnownBatch(PackedBatch):
    """A batch with what is known about its M mentions."""

    places: Tensor
    """int64 (M,): first token of each."""
    known: Tensor
    """float32 (M, D): mean vector of the best neighbours."""
    types: Tensor
    """int64 (M,)."""


class Knowing(TermwiseObjective):
    """Token vectors, and a layer that reads a mention's first token and its neighbours."""

    name = "knowing"
    flops_formula = "none"

    def __init__(self, config: KnowingConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size + config.width, config.types)
        self._knowledge: KnowledgeArrays | None = None

    def attach(self, name: str, folder: Path) -> None:
        """Map the graph."""
        super().attach(name, folder)
        self._knowledge = KnowledgeArrays.open(folder)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*WORDS, MENTIONS)

    @property
    def terms(self) -> tuple[Term, ...]:
        return (Term("type", "types of entities"),)

    def collate(self, rows: Sequence[Any], *, seed: int, step: int, row_indices: Any = None, **_: Any) -> KnownBatch:
        assert self._knowledge is not None, "attach comes first"
        ids = [np.asarray(field_of(row, "input_ids"), dtype=np.int64) for row in rows]
        spans = [np.asarray(field_of(row, "mentions"), dtype=np.int64).reshape(-1, 4) for row in rows]
        firsts = np.cumsum([0, *map(len, ids)])
        mentions = np.concatenate(spans)
        found = self._knowledge.best(mentions[:, 2], self.config.neighbours)
        known = np.zeros((len(mentions), self.config.width), dtype=np.float32)
        sizes = np.diff(found.offsets)
        np.add.at(known, np.repeat(np.arange(len(mentions)), sizes), self._knowledge.entity_vectors[found.entities])
        return KnownBatch(
            layout=Layout.from_lengths([len(one) for one in ids]),
            input_ids=torch.from_numpy(np.concatenate(ids)),
            rows=np.arange(len(rows)) if row_indices is None else np.asarray(row_indices),
            views=np.zeros(len(rows), dtype=np.int64),
            seed=seed,
            step=step,
            places=torch.from_numpy(mentions[:, 0] + np.repeat(firsts[:-1], [len(some) for some in spans])),
            known=torch.from_numpy(known / np.maximum(sizes, 1)[:, np.newaxis].astype(np.float32)),
            types=torch.from_numpy(self._knowledge.types[mentions[:, 2]].astype(np.int64)),
        )

    def divisors(self, batch: KnownBatch) -> dict[str, int]:
        return {"type": len(batch.types)}

    def outcome(self, batch: KnownBatch, *, measure: bool) -> Outcome:
        read_MD = torch.cat([self.words(batch.input_ids[batch.places]), batch.known], 1)
        logits_MT = self.output(read_MD).float()
        correct = (logits_MT.argmax(1) == batch.types).sum()
        return Outcome({"type": F.cross_entropy(logits_MT, batch.types, reduction="sum")}, {"type_correct": correct})

    @property
    def rate_names(self) -> tuple[str, ...]:
        return ("type_accuracy", "type_chance")

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        accuracy = ratio(sums["type_correct"], sums["type_total"])
        return {"type_accuracy": accuracy, "type_chance": 1 / self.config.types}

    def flops(self, batch: KnownBatch) -> float:
        return 1.0

    def row_bytes(self, precision: str) -> float:
        return 1.0

    def workspace_bytes(self) -> float:
        return 0.0

    @property
    def start(self) -> Start:
        return Start("words")

    @property
    def exports(self) -> tuple[str, ...]:
        return ()


def register() -> None:
    """Make presets of this process know the objective."""
    objectives._OBJECTIVES["knowing"] = (KnowingConfig, "tests.support.training.knowing:Knowing")
