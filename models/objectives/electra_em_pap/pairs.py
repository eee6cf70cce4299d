"""Batches of product attribute prediction: pairs of title and attribute, their values, and negatives drawn for a step.

A row is a pair. It becomes one sequence, title and attribute name, and one for each of its values: the positives, at
most `most_values` of them in a step, and for each positive `negatives` values that it does not have. All sequences of
all pairs are laid end to end, so a pair is encoded once, however many values it is compared with.

With `shared` the negatives are drawn for each attribute, not for each pair: a step's pairs of one attribute are
compared with the same ones, except those that they have. Then a value is encoded once for all pairs of a batch.

The draws are functions of (seed, step, row), like those of masking, and shared ones of (seed, step, attribute): a pair
gets the same values on any worker.

Shape legend: B pairs, N values (positives and negatives of all pairs), S sequences, T tokens laid end to end. Without
`shared`, S = B + N.
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
    by_frequency: float = 0.0
    """Share of the negatives that is drawn in proportion to the titles that have them; the rest equally often."""
    shared: int = 0
    """Negatives drawn for each attribute of a step, for all its pairs; 0: each pair draws its own."""


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
    pools = _pools(rows, values, drawing, seed, step)
    drawn = [
        _drawn(row, values, drawing, np.random.Generator(np.random.SFC64(int(key))), int(index), pools)
        for row, key, index in zip(rows, keys(seed, step, Stream.PRODUCT_VALUES, indices), indices, strict=True)
    ]
    sizes = np.array([len(positives) + len(negatives) for positives, negatives in drawn])
    value_N = np.concatenate([one for of_pair in drawn for one in of_pair])
    if drawing.shared:
        # A value is known by its number, not by a pair: the same dropout wherever it is encoded.
        encoded, which_N = np.unique(value_N, return_inverse=True)
        encoded_rows, encoded_views = encoded, np.ones_like(encoded)
    else:
        encoded, which_N = value_N, np.arange(len(value_N))
        encoded_rows = np.repeat(indices, sizes)
        encoded_views = 1 + which_N - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ids = [np.asarray(one, dtype=np.int64) for row in rows for one in (field_of(row, "input_ids"),)]
    ids += [np.asarray(values.tokens(value), dtype=np.int64) for value in encoded]
    lengths_S = np.array([len(one) for one in ids])
    seconds = lengths_S.copy()
    seconds[: len(rows)] = [int(field_of(row, "second")) for row in rows]
    view_S = np.concatenate([np.zeros_like(indices), encoded_views])
    row_S = np.concatenate([indices, encoded_rows])
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
        pair_sequences=torch.from_numpy(place_S[: len(rows)]),
        value_sequences=torch.from_numpy(place_S[len(rows) :][which_N]),
        value_pairs=torch.from_numpy(np.repeat(np.arange(len(rows)), sizes)),
        is_positive=torch.from_numpy(is_positive),
        weights=torch.from_numpy(weights),
        positives=int(is_positive.sum()),
    )


_Pools = Mapping[int, np.ndarray]
"""Values that the pairs of an attribute may take as negatives, int64 each."""


def _pools(
    rows: Sequence[Mapping[str, Any] | Any], values: ProductValues, drawing: Drawing, seed: int, step: int
) -> _Pools:
    """Draw `drawing.shared` values for each attribute of the rows."""
    attributes = (
        np.unique([int(field_of(row, "attribute")) for row in rows]) if drawing.shared else np.empty(0, np.int64)
    )
    draws = keys(seed, step, Stream.SHARED_VALUES, attributes)
    return {
        int(attribute): _negatives(
            values, int(attribute), (), drawing.shared, np.random.Generator(np.random.SFC64(int(key))), drawing
        )
        for attribute, key in zip(attributes, draws, strict=True)
    }


def _negatives(
    values: ProductValues,
    attribute: int,
    stated: Sequence[int] | np.ndarray,
    count: int,
    draw: np.random.Generator,
    drawing: Drawing,
) -> np.ndarray:
    frequent = round(drawing.by_frequency * count)
    found = np.empty(0, dtype=np.int64)
    if frequent:
        found = values.negatives(attribute, stated, frequent, draw, by_frequency=True)
    rest = values.negatives(attribute, [*stated, *found], count - frequent, draw)
    return np.concatenate([found, rest])


_Drawn = tuple[np.ndarray, np.ndarray]
"""Positives and negatives of a pair, int64 each."""


def _drawn(
    row: Mapping[str, Any] | Any,
    values: ProductValues,
    drawing: Drawing,
    draw: np.random.Generator,
    index: int,
    pools: _Pools,
) -> _Drawn:
    stated = np.asarray(field_of(row, "values"), dtype=np.int64)
    if not len(stated):
        raise ValueError(f"row {index}: its title has no value of the attribute")
    shown = stated
    if len(stated) > drawing.most_values:
        shown = np.sort(draw.choice(stated, drawing.most_values, replace=False))
    attribute = int(field_of(row, "attribute"))
    pool = pools.get(attribute, stated[:0])
    negatives = pool[~np.isin(pool, stated)]
    if not len(negatives):  # none is shared, or the pair has all that are
        negatives = _negatives(values, attribute, stated, drawing.negatives * len(shown), draw, drawing)
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
