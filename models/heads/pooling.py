"""One state of a sequence out of those of its tokens.

Shape legend: S sequences, T tokens laid end to end, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.encoder.layout import Layout

POOLINGS = ("cls", "mean")
"""How states become one: that of [CLS], or the mean of the tokens between [CLS] and the last [SEP]."""


def check_pooling(pooling: str) -> str:
    """Return `pooling`. Raises ValueError unless it is one of `POOLINGS`."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
    return pooling


def mean_states(states_TD: Tensor, layout: Layout) -> Tensor:
    """Return the mean state (S, D) of each sequence without its first and last token; zeros if nothing is left.

    Sums are float32, the means have the precision of the states.
    """
    offsets = layout.offsets.long()
    lengths_S = offsets.diff()
    owner_T = torch.repeat_interleave(lengths_S, output_size=layout.total)
    inner_T = torch.ones_like(owner_T, dtype=torch.float32)
    inner_T[offsets[:-1]] = 0.0
    inner_T[offsets[1:] - 1] = 0.0
    sums_SD = torch.zeros(len(lengths_S), states_TD.shape[1], device=states_TD.device)
    sums_SD = sums_SD.index_add(0, owner_T, states_TD.float() * inner_T[:, None])
    return (sums_SD / (lengths_S - 2).clamp_min(1)[:, None]).to(states_TD.dtype)
