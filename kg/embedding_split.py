"""Triples set apart to judge embeddings by."""

from __future__ import annotations

import numpy as np

from kg.embedding_batches import Draw, Triples, generator_for


def hold_out(triples: Triples, count: int, seed: int) -> np.ndarray:
    """bool (T,): at most `count` triples to hold out, a function of the seed and of the triples in their order.

    Every entity and every relation keeps a triple to be learned from: the first that names it in a random order stays.
    Where too few triples can be spared, fewer are held out.
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
