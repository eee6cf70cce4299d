"""Columns of an examples table: how a row is read, and what remains of it where the row is cut.

An objective names the columns that it trains on; the reader reads those and no others. Length warm-up cuts rows to a
few tokens, and every column must then still describe the row that is left: each kind of column says how.

Shape legend: L tokens of a row, N entries of a list.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # the loop itself runs without Arrow, on any parts that have `rows` and `read`
    import pyarrow as pa

Row = Any
"""A named tuple with the values of a row by the names of its columns."""


@dataclass(frozen=True)
class Cut:
    """Which tokens of a row remain."""

    kept: np.ndarray
    """bool (L,)"""

    @functools.cached_property
    def places(self) -> np.ndarray:
        """int64 (L + 1,): index in the cut row of each token that remains, of any other that of the next one."""
        return np.concatenate([[0], np.cumsum(self.kept)])


@dataclass(frozen=True)
class Column(ABC):
    """A column of an examples table."""

    name: str

    def read(self, column: pa.ChunkedArray) -> Sequence[Any]:
        """Return the values of all rows, as views where they are lists."""
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        return self._values(array)

    @abstractmethod
    def cut(self, value: Any, cut: Cut) -> Any:
        """Return what remains of a row's value."""

    def dropped(self, value: Any, remaining: Any) -> int:
        """Return the number of entries that a cut has dropped and a run should report."""
        return 0

    def _values(self, array: Any) -> Sequence[Any]:
        offsets = array.offsets.to_numpy()
        values = array.values.to_numpy()
        return [values[start:end] for start, end in pairwise(offsets)]


@dataclass(frozen=True)
class Tokens(Column):
    """One value for each token, such as `input_ids`: (L,)."""

    def cut(self, value: np.ndarray, cut: Cut) -> np.ndarray:
        return value[cut.kept]


@dataclass(frozen=True)
class Starts(Column):
    """Increasing token indices at which something begins, such as `word_starts`: (N,)."""

    def cut(self, value: np.ndarray, cut: Cut) -> np.ndarray:
        return cut.places[value[cut.kept[value]]].astype(value.dtype)


@dataclass(frozen=True)
class Spans(Column):
    """Spans of tokens with integers about them, such as `mentions`: (N, 2 + k), first token, token behind the last, …

    A span of which a token is cut off is dropped whole, and counted: half a name is no mention.
    """

    def cut(self, value: np.ndarray, cut: Cut) -> np.ndarray:
        first, behind = value[:, 0], value[:, 1]
        whole = cut.places[behind] - cut.places[first] == behind - first
        remaining = value[whole].copy()
        remaining[:, :2] = cut.places[remaining[:, :2]]
        return remaining

    def dropped(self, value: np.ndarray, remaining: np.ndarray) -> int:
        return len(value) - len(remaining)

    def _values(self, array: Any) -> Sequence[Any]:
        offsets = array.offsets.to_numpy()
        fields = array.values.flatten()
        values = np.stack([one.to_numpy().astype(np.int64) for one in fields], 1) if fields else np.empty((0, 2))
        return [values[start:end] for start, end in pairwise(offsets)]


@dataclass(frozen=True)
class Second(Column):
    """First token of the second part of a row [CLS] A [SEP] B [SEP], which is never cut off."""

    follows: bool = True
    """True if B continues A, as in pairs of sentences: A loses its beginning and B its end, so that they stay
    neighbours. False if B says what A is asked for, such as the name of an attribute: A loses its end, and B stays.
    """

    def cut(self, value: int, cut: Cut) -> int:
        return int(cut.places[value])

    def _values(self, array: Any) -> Sequence[Any]:
        return list(array.to_pylist())


@dataclass(frozen=True)
class Value(Column):
    """One value of the whole row, such as a label."""

    def cut(self, value: Any, cut: Cut) -> Any:
        return value

    def _values(self, array: Any) -> Sequence[Any]:
        return list(array.to_pylist())


@dataclass(frozen=True)
class Numbers(Column):
    """Several numbers about the whole row, such as those of its values: (N,)."""

    def cut(self, value: np.ndarray, cut: Cut) -> np.ndarray:
        return value


INPUT_IDS = Tokens("input_ids")
WORD_STARTS = Starts("word_starts")
MENTIONS = Spans("mentions")
"""int64 (N, 4): first token, token behind the last, row of the entity in the linked table, number of its name there."""
SECOND = Second("second")
"""Token at which the second sentence of a pair begins."""

WORDS = (INPUT_IDS, WORD_STARTS)
"""What every row of text has."""
NO_WORDS = np.empty(0, dtype=np.int64)
"""Word starts of a row that is cut after any token."""


@functools.cache
def row_type(names: tuple[str, ...]) -> Any:
    """Return the named tuple of rows with these columns; equal names give the same type."""
    return namedtuple("Row", names)


def read_rows(table: pa.Table, columns: Sequence[Column]) -> list[Row]:
    """Return all rows of a part; lists are views into its columns, so nothing is copied for each row."""
    kind = row_type(tuple(column.name for column in columns))
    values = (column.read(table.column(column.name)) for column in columns)
    return [kind(*row) for row in zip(*values, strict=True)]


def shorten(row: Row, columns: Sequence[Column], longest: int | None) -> tuple[Row, int]:
    """Return the row cut to at most `longest` tokens, and how many spans were dropped; None: the row as it is.

    [CLS] and every [SEP] remain. A row of one sentence ends after the last word that fits whole, or inside the first
    word where that alone is too long. Of two sentences the longer one is cut until both fit (Devlin et al., 2019): each
    has half of the room, and what the other leaves of its half; the first loses words at its beginning and the second
    at its end, so that they stay neighbours. A second part that does not follow the first (`Second.follows`) is kept,
    and the first is cut at its end. Each part keeps a token, so no pair is shorter than five.
    """
    if longest is None or len(row.input_ids) <= longest:
        return row, 0
    border = next((column for column in columns if isinstance(column, Second)), None)
    kept = _kept_of_one(row, longest) if border is None else _kept_of_pair(row, border, longest)
    cut = Cut(kept)
    values = {column.name: column.cut(getattr(row, column.name), cut) for column in columns}
    dropped = sum(column.dropped(getattr(row, column.name), values[column.name]) for column in columns)
    return row._replace(**values), dropped


def _kept_of_one(row: Row, longest: int) -> np.ndarray:
    length = len(row.input_ids)
    kept = np.zeros(length, dtype=bool)
    starts = _starts(row)
    begin = int(starts[0]) if len(starts) else 1
    kept[: _word_end(starts, begin, longest - 1)] = True
    kept[-1] = True
    return kept


def _kept_of_pair(row: Row, border: Second, longest: int) -> np.ndarray:
    starts, second, length = _starts(row), int(getattr(row, border.name)), len(row.input_ids)
    first_size, second_size = second - 2, length - 1 - second
    room = max(2, longest - 3)
    first_room = min(first_size, max(room // 2 if border.follows else 1, room - second_size))
    first_begin, first_end, second_end = 1, second - 1, length - 1
    if first_room < first_size and border.follows:
        first_begin = _word_begin(starts, first_end - first_room, first_end)
    elif first_room < first_size:
        first_end = _word_end(starts, 1, 1 + first_room)
    if room - first_room < second_size:
        second_end = _word_end(starts, second, second + room - first_room)
    kept = np.zeros(length, dtype=bool)
    kept[[0, second - 1, length - 1]] = True
    kept[first_begin:first_end] = kept[second:second_end] = True
    return kept


def _starts(row: Row) -> np.ndarray:
    found: np.ndarray = getattr(row, "word_starts", NO_WORDS)
    return found


def _word_begin(starts: np.ndarray, first: int, end: int) -> int:
    """Return the first token of [first, end) that begins a word, or `first` if no word begins there."""
    begins = starts[(starts >= first) & (starts < end)]
    return int(begins[0]) if len(begins) else first


def _word_end(starts: np.ndarray, begin: int, last: int) -> int:
    """Return the largest end of a word behind token `begin` that is at most `last`, or `last` where there is none.

    A word ends where the next begins, so words [1, 4, 9) with last = 7 end at 4.
    """
    ends = starts[(starts > begin) & (starts <= last)]
    return int(ends[-1]) if len(ends) else last
