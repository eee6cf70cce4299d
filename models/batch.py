"""Packed, masked batch of rows of token ids.

Rows are sorted by length, and a row's views are neighbours, so that equal lengths form long runs
(models/encoder/layout.py). Rows keep their global numbers, which all randomness is keyed by: neither their order in a
batch nor their worker changes anything.

Shape legend: B rows, S sequences (B times the number of views), T tokens laid end to end, M selected tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.masking import CLS, SEP, Masked, mask_words


@dataclass(frozen=True)
class MaskedBatch:
    """A batch of masked sequences. Tensors are int64; (S,) arrays identify the sequences for seeding and stay on the
    CPU.
    """

    layout: Layout
    input_ids: Tensor
    """(T,) ids after masking."""
    selected: Tensor
    """(M,) indices into T of the selected tokens, increasing."""
    original: Tensor
    """(M,) the original ids at these indices."""
    selected_counts: tuple[int, ...]
    """Number of selected tokens in each sequence; their sum is M."""
    rows: np.ndarray
    """int64 (S,) global row number of each sequence."""
    views: np.ndarray
    """int64 (S,) view of each sequence: 0, 1, 0, 1 …"""
    seed: int
    step: int

    @property
    def tokens(self) -> int:
        """T, over all views."""
        return self.layout.total

    @property
    def sequences(self) -> int:
        """S, over all views."""
        return len(self.rows)

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """Return the same batch with its tensors on `device`; the copy is asynchronous if they are pinned."""
        return replace(
            self,
            layout=self.layout.to(device),
            input_ids=self.input_ids.to(device, non_blocking=True),
            selected=self.selected.to(device, non_blocking=True),
            original=self.original.to(device, non_blocking=True),
        )

    def pin_memory(self) -> "MaskedBatch":
        """Return the same batch in page-locked memory, from which copies to a GPU run in parallel to its work."""
        return replace(
            self,
            layout=self.layout.pin_memory(),
            input_ids=self.input_ids.pin_memory(),
            selected=self.selected.pin_memory(),
            original=self.original.pin_memory(),
        )


def collate_masked(
    rows: Sequence[Mapping[str, Any] | Any],
    *,
    seed: int,
    step: int,
    row_indices: Sequence[int] | np.ndarray | None,
    views: int,
    vocab_size: int,
    max_positions: int,
    probability: float,
) -> MaskedBatch:
    """Pack and mask `rows`, each `views` times.

    A row is a mapping, or an object, with `input_ids` (integers, [CLS] first and [SEP] last) and `word_starts` (see
    `mask_words`). `row_indices` are the rows' global numbers, by default their places in the batch. Raises ValueError
    naming the row if an id is outside the vocabulary, [CLS] or [SEP] is missing, or the row is too long.
    """
    indices = np.arange(len(rows)) if row_indices is None else np.asarray(row_indices, dtype=np.int64)
    if not rows or len(indices) != len(rows):
        raise ValueError(
            f"a batch needs rows and one index per row, got {len(rows)} rows and {len(indices)} row_indices"
        )
    ids = [np.asarray(_field(row, "input_ids"), dtype=np.int64) for row in rows]
    starts = [np.asarray(_field(row, "word_starts"), dtype=np.int64) for row in rows]
    for index, row_ids in zip(indices, ids, strict=True):
        _check_row(int(index), row_ids, vocab_size, max_positions)
    order = np.repeat(np.lexsort((indices, np.array([len(row_ids) for row_ids in ids]))), views)
    lengths = [len(ids[i]) for i in order]
    sequence_rows, sequence_views = indices[order], np.tile(np.arange(views), len(rows))
    masked = mask_words(
        np.concatenate([ids[i] for i in order]),
        [starts[i] for i in order],
        lengths,
        vocab_size=vocab_size,
        seed=seed,
        step=step,
        rows=sequence_rows,
        views=sequence_views,
        probability=probability,
    )
    return _batch(masked, lengths, sequence_rows, sequence_views, seed, step)


def _batch(
    masked: Masked, lengths: list[int], rows: np.ndarray, views: np.ndarray, seed: int, step: int
) -> MaskedBatch:
    ends = np.searchsorted(masked.selected, np.cumsum(lengths))
    return MaskedBatch(
        layout=Layout.from_lengths(lengths),
        input_ids=torch.from_numpy(masked.input_ids),
        selected=torch.from_numpy(masked.selected),
        original=torch.from_numpy(masked.original),
        selected_counts=tuple(np.diff(ends, prepend=0).tolist()),
        rows=rows,
        views=views,
        seed=seed,
        step=step,
    )


def _field(row: Mapping[str, Any] | Any, name: str) -> Any:
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def _check_row(index: int, ids: np.ndarray, vocab_size: int, max_positions: int) -> None:
    if ids.ndim != 1 or len(ids) < 2 or ids[0] != CLS or ids[-1] != SEP:
        raise ValueError(f"row {index}: input_ids must begin with [CLS] ({CLS}) and end with [SEP] ({SEP})")
    if len(ids) > max_positions:
        raise ValueError(
            f"row {index} has {len(ids)} tokens, max_positions is {max_positions}; split it or raise max_positions"
        )
    outside = ids[(ids < 0) | (ids >= vocab_size)]
    if len(outside):
        raise ValueError(
            f"row {index} has id {outside[0]}, but vocab_size is {vocab_size}; "
            "encode with the vocabulary that the model was built for"
        )
