"""Split of a graph into triples for training and held-out triples for evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import fsspec
import numpy as np

from infra.builds import open_scratch
from kg.embedding.batches import Draw, Triples, generator_for


@dataclass(frozen=True)
class SplitGraph:
    """A numbered graph, split."""

    training: Triples
    held_out: Triples
    """May be empty: then nothing is evaluated and training never stops early."""
    num_entities: int
    num_relations: int


def hold_out(triples: Triples, count: int, seed: int) -> np.ndarray:
    """Choose at most `count` triples to hold out, from the seed and the triples in their order: bool (T,).

    Every entity and every relation keeps a triple to learn from: the first triple with it, in a random order, is kept
    for training. If too few triples can be spared, fewer are held out.
    """
    order = generator_for(seed, Draw.HELD_OUT).permutation(len(triples))
    shuffled = triples.take(order)
    ends = np.stack([shuffled.heads, shuffled.tails], 1).ravel()
    needed = np.zeros(len(triples), bool)
    needed[np.unique(ends, return_index=True)[1] // 2] = True
    needed[np.unique(shuffled.relations, return_index=True)[1]] = True
    held = np.zeros(len(triples), bool)
    held[order[~needed][: max(0, count)]] = True
    return held


_COLUMNS = ("heads", "relations", "tails")


def save_split(graph: SplitGraph, path: str) -> None:
    """Write a split graph to a path or URI, as arrays of NumPy.

    Raises:
        StorageFullError, UserError: as `infra.builds.explained` does.
    """
    arrays = {
        f"{name}_{column}": getattr(triples, column)
        for name, triples in (("training", graph.training), ("held_out", graph.held_out))
        for column in _COLUMNS
    }
    with open_scratch(path) as file:
        np.savez(file, sizes=np.array([graph.num_entities, graph.num_relations]), **arrays)


def load_split(path: str) -> SplitGraph:
    """Read what `save_split` wrote; raises FileNotFoundError if there is no such file."""
    with fsspec.open(path, "rb") as file, np.load(file) as arrays:
        training, held_out = (
            Triples(*(arrays[f"{name}_{column}"] for column in _COLUMNS)) for name in ("training", "held_out")
        )
        return SplitGraph(training, held_out, *arrays["sizes"].tolist())
