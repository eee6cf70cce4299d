"""Global batch of a step: which rows it holds, and which worker computes which of them in which micro-batch.

The rows follow from the place in the stream alone, so the batch is the same for any number of workers. How it is shared
out depends on the rows' lengths alone: all workers, and all their micro-batches, get the same number of rows give or
take one, and nearly the same number of tokens, so that no worker waits for another.

Shape legend: n rows of the global batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.training.columns import Row, shorten
from models.training.reader import ExampleStream


@dataclass(frozen=True)
class GlobalBatch:
    """Rows of one step, over all workers, in the order of the stream."""

    rows: list[Row]
    next_position: int
    """Sample of the stream at which the next batch begins."""
    dropped_spans: int = 0
    """Mentions that were dropped because their rows were cut."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [len(row.input_ids) for row in self.rows]


def read_global_batch(
    stream: ExampleStream,
    position: int,
    *,
    size: int | None = None,
    tokens: int | None = None,
    longest: int | None = None,
    whole_stream: bool = False,
) -> GlobalBatch:
    """Return the batch that begins at sample `position`: `size` rows, or as many as hold at most `tokens` tokens.

    Args:
        longest: number of tokens to which rows are cut.
        whole_stream: take the whole stream if it is smaller than the batch, instead of failing.

    Raises:
        ValueError: the stream is smaller than a batch, or a row alone has more than `tokens` tokens; the message names
            the setting.
    """
    if size is not None:
        taken = stream.take(position, min(size, stream.rows) if whole_stream else size)
        cut = [shorten(row, stream.columns, longest) for row in taken]
    else:
        cut = _take_tokens(stream, position, tokens or 0, longest, whole_stream)
    return GlobalBatch([row for row, _ in cut], position + len(cut), sum(dropped for _, dropped in cut))


def _take_tokens(
    stream: ExampleStream, position: int, budget: int, longest: int | None, whole_stream: bool
) -> list[tuple[Row, int]]:
    """Rows, each with the number of spans that were dropped from it."""
    rows: list[tuple[Row, int]] = []
    left = budget
    while len(rows) < stream.rows:
        row, dropped = shorten(stream.example(position + len(rows)), stream.columns, longest)
        left -= len(row.input_ids)
        if left < 0:
            break
        rows.append((row, dropped))
    if left < 0 and not rows:
        raise ValueError(
            f"training.batch_tokens is {budget}, but row {position} of the stream alone has {budget - left} tokens; "
            "raise batch_tokens to the tokens of many rows"
        )
    if left >= 0 and not whole_stream:
        raise ValueError(
            f"training.batch_tokens is {budget}, but all {stream.rows} examples hold only {budget - left} tokens; a "
            "batch must not hold an example twice. Give more text or reduce training.batch_tokens."
        )
    return rows


def share_out(
    lengths: Sequence[int], workers: int, micro_batch_size: int | None, *, equally_many: bool = False
) -> list[list[np.ndarray]]:
    """Return the rows of each worker's micro-batches: per worker, per micro-batch, increasing indices int64.

    Every worker has as many micro-batches as the one with the most rows needs for `micro_batch_size` rows in each. None
    is empty, though: with micro-batches of one row and rows left over, some workers have one fewer. Time O(n log n).

    Args:
        equally_many: give all workers that smaller number instead; a micro-batch may then hold two rows.

    Raises:
        ValueError: there are fewer rows than workers.
    """
    if len(lengths) < workers:
        raise ValueError(
            f"a batch of {len(lengths)} rows cannot be shared among {workers} workers; raise training.batch_size "
            "(or batch_tokens, or give more held-out text), or use fewer workers"
        )
    sizes = np.asarray(lengths)
    most = -(-len(sizes) // workers)
    cuts = -(-most // (micro_batch_size or most))
    if equally_many:
        cuts = min(cuts, len(sizes) // workers)
    shares = _deal(sizes, np.arange(len(sizes)), workers)
    return [_deal(sizes, share, min(cuts, len(share))) for share in shares]


def _deal(sizes: np.ndarray, rows: np.ndarray, hands: int) -> list[np.ndarray]:
    """Deal rows out from the longest to the shortest; in each round the hand with the fewest tokens picks first."""
    order = rows[np.lexsort((rows, -sizes[rows]))]
    held = np.zeros(hands, dtype=np.int64)
    owner = np.empty(len(order), dtype=np.int64)
    for first in range(0, len(order), hands):
        dealt = slice(first, first + hands)
        turn = np.argsort(held, kind="stable")[: len(order[dealt])]
        owner[dealt] = turn
        held[turn] += sizes[order[dealt]]
    return [np.sort(order[owner == hand]) for hand in range(hands)]
