"""Rows of random tokens and the sizes of a model that reads them in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Rows = list[dict[str, np.ndarray]]


TINY = {
    "vocab_size": 300,
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 6,
    "intermediate_size": 48,
    "max_positions": 64,
}


def random_rows(lengths: Sequence[int], vocab_size: int = 300, seed: int = 0) -> Rows:
    """Rows of random ordinary tokens: [CLS], words of one to four tokens, [SEP]."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        ids = np.concatenate([[2], rng.integers(5, vocab_size, length - 2), [3]])
        starts = 1 + np.cumsum(rng.integers(1, 5, length))
        starts = np.concatenate([[1], starts[starts < length - 1]]) if length > 2 else np.array([], int)
        rows.append({"input_ids": ids.astype(np.int32), "word_starts": starts.astype(np.int32)})
    return rows
