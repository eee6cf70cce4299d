"""Batches of product attribute prediction: pairs of title and attribute, their values, and negatives drawn for a step.

A row is a pair. It becomes one sequence, title and attribute name, and one for each of its values: the positives, at
most `most_values` of them in a step, and for each positive `negatives` values that it does not have. All sequences of
all pairs are laid end to end, so a pair is encoded once, however many values it is compared with.

The draws are functions of (seed, step, row), like those of masking: a pair gets the same values on any worker.

Shape legend: B pairs, N values (positives and negatives of all pairs), S = B + N sequences, T tokens laid end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.batch import PackedBatch, field_of, row_numbers
from models.encoder.layout import Layout
from models.encoder.randomness import Stream, keys
from models.objectives.electra_em_pap.values import ProductValues


@dataclass(frozen=True)
class PairBatch(PackedBatch):
    """A packed batch of pairs and values; tensors are int64 where nothing else is said."""

    type_ids: Tensor
    """(T,) 1 for the name of an attribute, 0 for titles and values."""
    pair_sequences: Tensor
    """(B,) the sequence of each pair."""
    value_sequences: Tensor
    """(N,) the sequence of each value."""
    value_pairs: Tensor
    """(N,) the pair that each value is compared with."""
    is_positive: Tensor
    """bool (N,) whether the pair has the value."""
    weights: Tensor
    """float32 (N,) 1 for a positive; P / k for a negative of a pair with P positives and k negatives."""
    positives: int
    """Number of positives: the triples of title, attribute and value."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How values are drawn for a pair."""

    most_values: int
    negatives: int
    """Negatives for each positive."""
    by_frequency: bool = False
    """Draw negatives in proportion to the titles that have them."""


def collate_pairs(
    rows: Sequence[Mapping[str, Any] | Any],
    values: ProductValues,
    *,
    seed: int,
    step: int,
    row_indices: Sequence[int] | np.ndarray | None,
    drawing: Drawing,
) -> PairBatch:
    """Pack pairs with their values. `row_indices` are the rows' global numbers, by default their places in the batch.

    A row has `input_ids` ([CLS] title [SEP] attribute name [SEP]), `second` (the first token of the attribute's name),
    `attribute` (its number) and `values` (numbers of its values).

    Raises:
        ValueError: a pair has no value, or no other value exists; the message names the row.
    """
    indices = row_numbers(rows, row_indices)
    drawn = [
        _drawn(row, values, drawing, np.random.Generator(np.random.SFC64(int(key))), int(index))
        for row, key, index in zip(rows, keys(seed, step, Stream.PRODUCT_VALUES, indices), indices, strict=True)
    ]
    sizes = np.array([1 + len(positives) + len(negatives) for positives, negatives in drawn])
    firsts = np.cumsum(sizes) - sizes
    pair_N = np.repeat(np.arange(len(rows)), sizes - 1)
    in_order_N = np.setdiff1d(np.arange(sizes.sum()), firsts)
    ids = [
        np.asarray(one, dtype=np.int64)
        for row, (positives, negatives) in zip(rows, drawn, strict=True)
        for one in (field_of(row, "input_ids"), *map(values.tokens, (*positives, *negatives)))
    ]
    seconds = np.array([len(one) for one in ids])
    lengths_S = seconds.copy()
    seconds[firsts] = [int(field_of(row, "second")) for row in rows]
    view_S = np.arange(sizes.sum()) - np.repeat(firsts, sizes)
    row_S = np.repeat(indices, sizes)
    # Sorted by length, so that equal lengths form long runs; equal lengths by row, so that the order is one.
    order = np.lexsort((view_S, row_S, lengths_S))
    place_S = np.argsort(order)
    lengths = lengths_S[order].tolist()
    starts = np.concatenate([np.arange(length) for length in lengths])
    is_positive, weights = _marks(drawn)
    return PairBatch(
        layout=Layout.from_lengths(lengths),
        input_ids=torch.from_numpy(np.concatenate([ids[number] for number in order])),
        rows=row_S[order],
        views=view_S[order],
        seed=seed,
        step=step,
        type_ids=torch.from_numpy((starts >= np.repeat(seconds[order], lengths)).astype(np.int64)),
        pair_sequences=torch.from_numpy(place_S[firsts]),
        value_sequences=torch.from_numpy(place_S[in_order_N]),
        value_pairs=torch.from_numpy(pair_N),
        is_positive=torch.from_numpy(is_positive),
        weights=torch.from_numpy(weights),
        positives=int(is_positive.sum()),
    )


_Drawn = tuple[np.ndarray, np.ndarray]
"""Positives and negatives of a pair, int64 each."""


def _drawn(
    row: Mapping[str, Any] | Any, values: ProductValues, drawing: Drawing, draw: np.random.Generator, index: int
) -> _Drawn:
    stated = np.asarray(field_of(row, "values"), dtype=np.int64)
    if not len(stated):
        raise ValueError(f"row {index}: its title has no value of the attribute")
    shown = stated
    if len(stated) > drawing.most_values:
        shown = np.sort(draw.choice(stated, drawing.most_values, replace=False))
    attribute = int(field_of(row, "attribute"))
    negatives = values.negatives(attribute, stated, drawing.negatives * len(shown), draw, drawing.by_frequency)
    if not len(negatives):
        raise ValueError(f"row {index}: there is no value that its title lacks, so no negative can be drawn")
    return shown, negatives


def _marks(drawn: Sequence[_Drawn]) -> tuple[np.ndarray, np.ndarray]:
    """Return bool (N,) whether a value is a positive, and its weight float32 (N,)."""
    positive = [np.arange(len(own) + len(others)) < len(own) for own, others in drawn]
    weights = [
        np.where(marks, 1.0, len(own) / len(others)) for marks, (own, others) in zip(positive, drawn, strict=True)
    ]
    return np.concatenate(positive), np.concatenate(weights).astype(np.float32)
