"""Packed layout of a batch: sequences laid end to end, without padding.

Shape legend: S sequences, T tokens in all, D width. Sequence i covers tokens offsets[i] to offsets[i+1] of a (T, D)
tensor. Neighbouring sequences of equal length form a *run*: n sequences of L tokens are a view (n, L, D) of n*L rows,
so attention on a CPU is one batched product per run, with no gather and no padding. If sequences are sorted by length
before packing, there is one run per distinct length.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor


class Run(NamedTuple):
    """`sequences` neighbouring sequences of `length` tokens each, the first of which starts at token `start`."""

    start: int
    sequences: int
    length: int

    @property
    def tokens(self) -> slice:
        """Range of the run's tokens."""
        return slice(self.start, self.start + self.sequences * self.length)


@dataclass(frozen=True)
class Layout:
    """Place of each sequence of a packed batch. Build it with `Layout.from_lengths`."""

    lengths: tuple[int, ...]
    """Tokens of each sequence, [CLS] and [SEP] included (S numbers)."""
    runs: tuple[Run, ...]
    """Maximal runs of equal neighbouring lengths, in order."""
    offsets: Tensor
    """int32 (S+1,): first token of each sequence, and T; what variable-length kernels call cu_seqlens."""
    index_offsets: Tensor
    """The same as int64, for indexing."""
    positions: Tensor
    """int64 (T,): place of each token in its sequence, from 0."""

    @classmethod
    def from_lengths(cls, lengths: Sequence[int]) -> "Layout":
        """Return the layout of sequences with these lengths, on the CPU.

        Raises ValueError if there are no lengths or one of them is not positive.
        """
        lengths = tuple(int(length) for length in lengths)
        if not lengths or min(lengths) < 1:
            raise ValueError(f"a packed batch needs at least one sequence and no empty one, got lengths {lengths}")
        lengths_S = torch.tensor(lengths)
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64)
        torch.cumsum(lengths_S, 0, out=offsets[1:])
        positions = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1], lengths_S)
        return cls(lengths, tuple(_runs(lengths)), offsets.to(torch.int32), offsets, positions)

    @property
    def total(self) -> int:
        """T, the number of tokens."""
        return int(self.positions.shape[0])

    @property
    def firsts(self) -> Tensor:
        """int32 (S,): first token ([CLS]) of each sequence."""
        return self.offsets[:-1]

    def to(self, device: torch.device | str) -> "Layout":
        """Return the same layout with its tensors on `device`; the copy is asynchronous if they are pinned."""
        return self._with_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Layout":
        """Return the same layout in page-locked memory."""
        return self._with_tensors(Tensor.pin_memory)

    def _with_tensors(self, change: Callable[[Tensor], Tensor]) -> "Layout":
        return replace(
            self,
            offsets=change(self.offsets),
            index_offsets=change(self.index_offsets),
            positions=change(self.positions),
        )


def _runs(lengths: Sequence[int]) -> Iterator[Run]:
    start = 0
    for length, group in groupby(lengths):
        count = sum(1 for _ in group)
        yield Run(start, count, length)
        start += count * length
