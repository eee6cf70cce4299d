"""Small inputs that the tests of models/ share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

# Tensors here are tiny: a second thread only adds waiting, and a great deal of it where the machine is busy.
torch.set_num_threads(1)

Rows = list[dict[str, np.ndarray]]

TINY = {
    "vocab_size": 300,
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 6,
    "intermediate_size": 48,
    "max_positions": 64,
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """An eHealth config that runs in milliseconds; divisible by three throughout."""
    return dict(TINY)


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


@pytest.fixture
def make_rows() -> Callable[..., Rows]:
    """`random_rows`."""
    return random_rows
