"""Mentions of a packed batch: which tokens belong to which.

Shape legend: M mentions, N their tokens, laid end to end, T tokens of the batch, L tokens of the longest mention.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from infra.arrays.ranges import ranges


@dataclass(frozen=True)
class Spans:
    """M mentions that do not overlap. All tensors are int64."""

    tokens: Tensor
    """(N,) the mentions' tokens as indices into T, mention by mention."""
    owners: Tensor
    """(N,) mention of each."""
    offsets: Tensor
    """(N,) place of each in its mention, from 0."""
    count: int
    """M"""
    longest: int
    """L"""

    @classmethod
    def of(cls, firsts: np.ndarray, behinds: np.ndarray) -> Spans:
        """Return the mentions with tokens [firsts[i], behinds[i]) of the batch; integers (M,), on the CPU.

        Raises:
            ValueError: a mention is empty, or two share a token.
        """
        firsts, behinds = np.asarray(firsts, dtype=np.int64), np.asarray(behinds, dtype=np.int64)
        lengths = behinds - firsts
        tokens, owners = ranges(firsts, behinds), np.repeat(np.arange(len(firsts)), lengths)
        if len(firsts) and lengths.min() < 1:
            empty = int(lengths.argmin())
            raise ValueError(f"mention {empty} is empty: tokens {firsts[empty]} to {behinds[empty]}")
        if len(np.unique(tokens)) != len(tokens):
            raise ValueError("two mentions share a token; link texts so that the longest name wins")
        placed = [torch.from_numpy(np.ascontiguousarray(array)) for array in (tokens, owners, tokens - firsts[owners])]
        return cls(placed[0], placed[1], placed[2], count=len(firsts), longest=int(lengths.max(initial=0)))

    def sum(self, values_ND: Tensor) -> Tensor:
        """Return the sum over each mention's tokens, (M, D)."""
        return values_ND.new_zeros(self.count, values_ND.shape[1]).index_add(0, self.owners, values_ND)

    def softmax(self, scores_N: Tensor) -> Tensor:
        """Return weights (N,) that add up to 1 over the tokens of each mention; float32 for scores in bfloat16."""
        precise_N = scores_N.float() if scores_N.dtype == torch.bfloat16 else scores_N
        padded_ML = precise_N.new_full((self.count, self.longest), -torch.inf)
        padded_ML = padded_ML.index_put((self.owners, self.offsets), precise_N)
        return torch.softmax(padded_ML, 1)[self.owners, self.offsets]
