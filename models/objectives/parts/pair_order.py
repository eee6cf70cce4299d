"""Sentence order prediction: the sentences of half of the pairs exchanged (Lan et al., 2020, "ALBERT", section 3.1).

A pair is [CLS] A [SEP] B [SEP]; exchanged it is [CLS] B [SEP] A [SEP]. All that has a place in the row moves with its
sentence: words, mentions, entities.

Shape legend: B rows, S sequences of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.batch import field_of
from models.encoder.randomness import Stream, uniforms


def order_labels(seed: int, step: int, row_indices: np.ndarray) -> np.ndarray:
    """Return the labels of rows with these global numbers, int64 (B,): 1 to exchange, for half by chance."""
    return (uniforms(seed, step, row_indices, Stream.PAIR_ORDER, 0) < 0.5).astype(np.int64)


def by_sequence(labels: np.ndarray, row_indices: np.ndarray, batch_rows: np.ndarray) -> Tensor:
    """Return the labels (B,) of the rows with these global numbers in the order of a batch's `rows`, int64 (S,)."""
    order = np.argsort(row_indices)
    return torch.from_numpy(labels[order[np.searchsorted(row_indices, batch_rows, sorter=order)]])


def exchanged_place(place: np.ndarray, second: np.ndarray | int, length: np.ndarray | int) -> np.ndarray:
    """Return where tokens of a pair are once its sentences are exchanged; the arguments broadcast.

    Args:
        place: tokens, counted from the [CLS] of their row.
        second: first token of the second sentence.
        length: tokens of the row.
    """
    into_second, into_first = place + length - second, place - second + 1
    # [CLS] 0, A 1 2, [SEP] 3, B 4, [SEP] 5 become 0, 3 4, 2, 1, 5.
    moved = np.where(place == second - 1, length - second, np.where(place < second, into_second, into_first))
    return np.where((place == 0) | (place == length - 1), place, moved)


def exchanged(row: Mapping[str, Any] | Any, spans: Sequence[str] = ()) -> dict[str, Any]:
    """Return a pair with its sentences in the other order: `input_ids`, `word_starts`, `second` and its spans.

    Args:
        spans: names of the columns of spans that move too, such as `mentions`: (N, 2 + k), first token, token behind
            the last, … They come back in the order of their first tokens.
    """
    ids, second = np.asarray(field_of(row, "input_ids")), int(field_of(row, "second"))
    length = len(ids)
    moved = np.empty_like(ids)
    moved[exchanged_place(np.arange(length), second, length)] = ids
    starts = np.asarray(field_of(row, "word_starts"), dtype=np.int64)
    found = {
        "input_ids": moved,
        "word_starts": np.sort(exchanged_place(starts, second, length)),
        "second": length - second + 1,
    }
    return found | {name: exchanged_spans(np.asarray(field_of(row, name)), second, length) for name in spans}


def exchanged_spans(spans: np.ndarray, second: int, length: int) -> np.ndarray:
    """Return the spans (N, 2 + k) of an exchanged pair, in the order of their first tokens."""
    moved = spans.astype(np.int64)
    moved[:, 0] = exchanged_place(spans[:, 0], second, length)
    moved[:, 1] = exchanged_place(spans[:, 1] - 1, second, length) + 1  # the token behind A's last is a [SEP]
    return moved[np.argsort(moved[:, 0], kind="stable")]
