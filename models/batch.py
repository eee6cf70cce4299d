"""Packed, masked batch of rows of token ids.

Rows are sorted by length, and a row's views are neighbours, so that equal lengths form long runs
(models/encoder/layout.py). Rows keep their global numbers, which all randomness is keyed by: neither their order in a
batch nor their worker changes anything.

A row is a mapping, or an object, with `input_ids` (integers, [CLS] first and [SEP] last), `word_starts` (see
`mask_words`) and, where it is a pair, `second`: the token index at which its second sentence begins.

Shape legend: B rows, S sequences (B times the number of views), T tokens laid end to end, M selected tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from models.encoder.layout import Layout
from models.masking import BERT, Masked, Replacement, mask_words
from models.tokenizer.special_ids import CLS, SEP


@dataclass(frozen=True)
class PackedBatch:
    """A batch of sequences laid end to end; (S,) arrays name the sequences for seeding and stay on the CPU.

    An objective adds what it needs as fields of a subclass or, by name, in `extras`: everything that is a tensor, a
    layout, or a mapping or dataclass with tensors moves and pins with the batch.
    """

    layout: Layout
    input_ids: Tensor
    """int64 (T,) ids as the model reads them."""
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

    def to(self, device: torch.device | str) -> Self:
        """Return the batch with its tensors on `device`; the copy does not wait where they are pinned."""
        return self._changed(lambda tensor: tensor.to(device, non_blocking=True), lambda layout: layout.to(device))

    def pin_memory(self) -> Self:
        """Return the batch in page-locked memory, from which copies to a GPU run beside its work."""
        return self._changed(Tensor.pin_memory, Layout.pin_memory)

    def _changed(self, tensor: Callable[[Tensor], Tensor], layout: Callable[[Layout], Layout]) -> Self:
        def change(value: Any) -> Any:
            if isinstance(value, Tensor):
                return tensor(value)
            if isinstance(value, Layout):
                return layout(value)
            if isinstance(value, Mapping):
                return {name: change(one) for name, one in value.items()}
            return changed(value) if is_dataclass(value) else value

        def changed(whole: Any) -> Any:
            return replace(whole, **{one.name: change(getattr(whole, one.name)) for one in fields(whole)})

        return cast(Self, changed(self))


@dataclass(frozen=True)
class MaskedBatch(PackedBatch):
    """A packed batch of masked sequences. Tensors are int64."""

    selected: Tensor
    """(M,) indices into T of the selected tokens, increasing."""
    original: Tensor
    """(M,) the ids that stood there."""
    selected_counts: tuple[int, ...]
    """Selected tokens of each sequence; they add up to M."""
    type_ids: Tensor | None = None
    """(T,) 0 for a first sentence, 1 for a second; None where no row is a pair."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """What an objective adds by name."""

    def with_extras(self, **tensors: Tensor) -> Self:
        """Return the batch with more named tensors."""
        return replace(self, extras={**self.extras, **tensors})


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How a batch is masked; see `mask_words`."""

    probability: float
    replacement: Replacement = BERT
    most: int | None = None
    """The most tokens that are selected in a sequence; None: no exact number."""
    whole_words: bool = True
    """Select the tokens of a word together; False: each token by itself."""


def row_numbers(rows: Sequence[Any], row_indices: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Return the global numbers of rows, int64 (B,); by default their places in the batch."""
    return np.arange(len(rows)) if row_indices is None else np.asarray(row_indices, dtype=np.int64)


def collate_masked(
    rows: Sequence[Mapping[str, Any] | Any],
    *,
    seed: int,
    step: int,
    row_indices: Sequence[int] | np.ndarray | None,
    views: int,
    vocab_size: int,
    max_positions: int,
    masking: Masking,
    spared: Sequence[np.ndarray] | None = None,
) -> MaskedBatch:
    """Pack and mask `rows`, each `views` times over. `row_indices` are the rows' global numbers, by default their
    places in the batch.

    `spared`: for each row, bool (its length,), tokens that must not be selected; a word that holds one is left whole.

    Raises:
        ValueError: ids outside the vocabulary, a missing [CLS] or [SEP], a row too long, or a second sentence that
            begins outside its row; the message names the row.
    """
    indices = row_numbers(rows, row_indices)
    if not rows or len(indices) != len(rows):
        raise ValueError(
            f"a batch needs rows and one index per row, got {len(rows)} rows and {len(indices)} row_indices"
        )
    ids = [np.asarray(field_of(row, "input_ids"), dtype=np.int64) for row in rows]
    if masking.whole_words:
        starts = [np.asarray(field_of(row, "word_starts"), dtype=np.int64) for row in rows]
    else:
        starts = [np.arange(1, len(row_ids) - 1) for row_ids in ids]
    for index, row_ids in zip(indices, ids, strict=True):
        _check_row(int(index), row_ids, vocab_size, max_positions)
    order = np.repeat(np.lexsort((indices, np.array([len(row_ids) for row_ids in ids]))), views).tolist()
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
        probability=masking.probability,
        replacement=masking.replacement,
        most=masking.most,
        blocked=None if spared is None else np.concatenate([spared[i] for i in order]),
    )
    batch = _batch(masked, lengths, sequence_rows, sequence_views, seed, step)
    if not has_field(rows[0], "second"):
        return batch
    seconds = [_second(int(indices[i]), int(field_of(rows[i], "second")), len(ids[i])) for i in order]
    return replace(batch, type_ids=_types(lengths, seconds))


def _batch(
    masked: Masked, lengths: list[int], rows: np.ndarray, views: np.ndarray, seed: int, step: int
) -> MaskedBatch:
    ends = np.searchsorted(masked.selected, np.cumsum(lengths))
    return MaskedBatch(
        layout=Layout.from_lengths(lengths),
        input_ids=torch.from_numpy(masked.input_ids),
        rows=rows,
        views=views,
        seed=seed,
        step=step,
        selected=torch.from_numpy(masked.selected),
        original=torch.from_numpy(masked.original),
        selected_counts=tuple(np.diff(ends, prepend=0).tolist()),
    )


def _types(lengths: Sequence[int], seconds: Sequence[int]) -> Tensor:
    """Token types int64 (T,): 1 from each sequence's second sentence on."""
    place = np.concatenate([np.arange(length) for length in lengths])
    return torch.from_numpy((place >= np.repeat(seconds, lengths)).astype(np.int64))


def _second(index: int, second: int, length: int) -> int:
    if not 2 <= second < length:
        raise ValueError(f"row {index}: its second sentence begins at token {second} of {length}")
    return second


def field_of(row: Mapping[str, Any] | Any, name: str) -> Any:
    """Return a field of a row, whether it is a mapping or an object."""
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def has_field(row: Mapping[str, Any] | Any, name: str) -> bool:
    """Return whether a row has a field of this name."""
    return name in row if isinstance(row, Mapping) else hasattr(row, name)


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
