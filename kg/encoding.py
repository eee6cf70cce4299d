"""Columns of strings and of lists as numbers: the place of each value among the sorted, distinct ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int32]


def code_of(column: str, categories: pl.Series) -> pl.Expr:
    """Return the place of every value among sorted, distinct categories."""
    if categories.is_empty():
        return pl.col(column).cast(pl.String).str.len_bytes().cast(pl.Int32)
    return pl.col(column).cast(pl.String).cast(pl.Enum(categories)).to_physical().cast(pl.Int32)


def places_of(column: pa.ChunkedArray, categories: pl.Series) -> IntArray:
    """Return the place of every value among sorted, distinct categories; -1 for other values."""
    # Through a dictionary, so that each distinct string is looked up once and not once per row.
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not len(column):
        return np.zeros(0, np.int32)
    encoded = pa.chunked_array(column.unify_dictionaries().chunks).combine_chunks()
    values = pl.Series(encoded.dictionary, dtype=pl.String)
    places = values.cast(pl.Enum(categories), strict=False).to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
    return np.asarray(places[encoded.indices.to_numpy()])


def encode_sets(column: pa.ChunkedArray) -> tuple[list[tuple[str, ...]], IntArray]:
    """Return the distinct lists of a column as sorted tuples, in sorted order, and each row's place among them."""
    if not len(column):
        return [()], np.zeros(0, np.int32)
    lists = column.combine_chunks()
    lengths = lists.value_lengths()
    if pc.max(lengths).as_py() <= 1:
        # At most one source per row, as before fusion: the lists need no keys.
        names = pl.Series(lists.flatten().unique()).sort()
        has_one = lengths.to_numpy() == 1
        codes = np.zeros(len(lists), np.int32)
        codes[has_one] = places_of(pa.chunked_array([lists.flatten()]), names) + (0 if has_one.all() else 1)
        return [*([] if has_one.all() else [()]), *((name,) for name in names)], codes
    keys = pl.Series(lists).list.join("\0")
    distinct = keys.unique()
    sets = sorted({_set_of(key) for key in distinct})
    place = {names: number for number, names in enumerate(sets)}
    coded = keys.replace_strict(distinct, [place[_set_of(key)] for key in distinct], return_dtype=pl.Int32)
    return sets, coded.to_numpy()


def _set_of(key: str) -> tuple[str, ...]:
    return tuple(sorted(set(filter(None, key.split("\0")))))


def is_increasing(*columns: IntArray) -> bool:
    """Return whether the rows are strictly increasing, compared column by column."""
    # True for a row that equals the one before it in all columns looked at so far.
    undecided = np.ones(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        before, after = column[:-1], column[1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
    return not undecided.any()
