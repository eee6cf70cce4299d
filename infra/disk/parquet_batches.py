"""Batches of a Parquet file from outside, in memory that its bytes cannot multiply.

A file of 2 kB may hold 6 GB: one long value in a dictionary that every row points to, or a run of 50 million nulls. So
the numbers in its footer and the headers of its dictionaries are compared with its size first, its rows over all row
groups. Then batches are cut so small that each row of one may hold the longest value, and what was decoded is compared
with what was stored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from infra.limits import limits

HEADER_BYTES = 64
"""Bytes of a page's header that are looked at."""

LONG_DICTIONARY = 4 << 20
"""Bytes of a dictionary that writers do not exceed before they give it up; most stop at 1 MiB."""

REMEDY = "write it again without repeating values, or raise YIWEN_LIMITS if you trust it"


class ParquetBombError(Exception):
    """A Parquet file expands out of all proportion; the message says how."""


def parquet_batches(
    source: Any, groups: Sequence[int] | None = None, rows: int = 512, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file in order.

    Args:
        source: path, or a file open for reading at any position.
        groups: row groups to read; by default all.
        rows: most rows of a batch.
        columns: columns to read; by default all.

    Raises:
        ParquetBombError: after the last batch that could be read.
        pa.ArrowException, OSError: the file cannot be read as Parquet.
    """
    with open_parquet(source) as file:
        metadata = file.metadata
        chosen = range(metadata.num_row_groups) if groups is None else groups
        stored = sum(_check_group(metadata.row_group(index), index) for index in chosen)
        size = _size_of(source)
        _check_rows(metadata, size)
        stored = min(size, stored)  # row groups may announce more bytes than there are, or share them
        dictionaries = {index: _dictionary_bytes(source, metadata.row_group(index)) for index in chosen}
    decoded = 0
    for index in chosen:
        for batch in _group_batches(source, metadata.row_group(index), index, dictionaries[index], rows, columns):
            decoded += _expanded(batch)
            if limits().is_bomb(stored, decoded):
                raise ParquetBombError(
                    f"its {stored:,} bytes of values expand to more than {decoded:,}, that is {limits().expansion} "
                    f"times as many; {REMEDY}"
                )
            yield from _pieces(batch)


def _group_batches(
    source: Any, group: Any, index: int, dictionaries: dict[str, int], rows: int, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a row group, of so few rows that all may hold the longest value of a dictionary.

    The values of a list are repeated as numbers until their rows are cut out of the batch. Arrow cannot do that where
    a column's writer gave up its dictionary on the way: such rows are read one by one.
    """
    nested = {name: size for name, size in dictionaries.items() if "." in name}
    longest = max((size for name, size in dictionaries.items() if name not in nested), default=0)
    done = 0
    try:
        with open_parquet(source, nested) as file:
            for batch in _batches(file, _at_once(rows, longest), index, columns):
                done += len(batch)
                yield batch
        return
    except pa.ArrowNotImplementedError:
        if not nested:  # not for the numbers of a list's dictionary: a type that Arrow cannot read at all
            raise
        if max(nested.values()) > LONG_DICTIONARY:
            raise ParquetBombError(
                f"a list in row group {index} has a dictionary of {max(nested.values()):,} bytes; {REMEDY}"
            ) from None
    values = max(group.column(number).num_values for number in range(group.num_columns)) // max(1, group.num_rows) + 1
    with open_parquet(source) as file:
        longest = max(longest, *(values * size for size in nested.values()))
        for batch in _batches(file, _at_once(rows, longest), index, columns):
            skipped = min(done, len(batch))
            done -= skipped
            if skipped < len(batch):
                yield batch.slice(skipped)


def _batches(file: Any, rows: int, group: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    return file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


def _at_once(rows: int, longest: int) -> int:
    return max(1, min(rows, limits().row_bytes // max(1, longest)))


def open_parquet(source: Any, dictionaries: Iterable[str] = ()) -> Any:
    """Open a Parquet file. Raises ArrowInvalid as well if the name of a column is not UTF-8."""
    try:
        # Without Arrow's threads, here and in `_batches`: one that lets go of one of Python's files while the
        # interpreter shuts down ends the process with "terminate called without an active exception".
        return pyarrow.parquet.ParquetFile(source, read_dictionary=list(dictionaries), pre_buffer=False)
    except UnicodeDecodeError as error:  # of Arrow's Python part, which does not make it one of its own errors
        raise pa.ArrowInvalid(f"the name of a column is not UTF-8: {error}") from error


def _size_of(source: Any) -> int:
    """Return the bytes of a file, given as for `parquet_batches`."""
    return os.stat(source).st_size if isinstance(source, str | os.PathLike) else int(source.seek(0, os.SEEK_END))


def _check_rows(metadata: Any, size: int) -> None:
    """Compare the rows of all row groups with the bytes of the file: each group alone may be small enough."""
    rows = sum(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))
    if rows > max(limits().values, limits().rows_per_byte * size):
        raise ParquetBombError(f"it has {rows:,} rows in {size:,} bytes; {REMEDY}")


def _check_group(group: Any, index: int) -> int:
    """Return the bytes of a row group, after comparing them with what its footer announces."""
    stored = sum(max(0, group.column(number).total_compressed_size) for number in range(group.num_columns))
    for number in range(group.num_columns):
        column = group.column(number)
        where = f"column {column.path_in_schema} of row group {index}"
        if limits().is_bomb(stored, column.total_uncompressed_size):
            raise ParquetBombError(
                f"{where} expands from {stored:,} to {column.total_uncompressed_size:,} bytes; {REMEDY}"
            )
        if column.num_values > max(limits().values, limits().expansion * stored):
            raise ParquetBombError(f"{where} has {column.num_values:,} values in {stored:,} bytes; {REMEDY}")
    if group.num_rows > max(limits().values, limits().expansion * stored):
        raise ParquetBombError(f"row group {index} has {group.num_rows:,} rows in {stored:,} bytes; {REMEDY}")
    return stored


def _dictionary_bytes(source: Any, group: Any) -> dict[str, int]:
    """Return the uncompressed bytes of each column's dictionary: no value that it holds is longer."""
    found = {}
    is_path = isinstance(source, str | os.PathLike)
    with open(source, "rb") if is_path else contextlib.nullcontext(source) as raw:
        for number in range(group.num_columns):
            column = group.column(number)
            if column.has_dictionary_page and column.dictionary_page_offset:
                raw.seek(column.dictionary_page_offset)
                found[column.path_in_schema] = _page_bytes(raw.read(HEADER_BYTES))
    return found


def _page_bytes(header: bytes) -> int:
    """Return the uncompressed bytes of a page from its header in Thrift's compact form, 0 if that is unreadable.

    `15 04 15 88 ec b8 0b` is field 1 (the type, 2) and field 2 (12,000,004 bytes) as variable-length integers.
    """
    place, fields = 0, []
    for _ in range(2):
        if header[place : place + 1] != b"\x15":
            return 0
        value = shift = 0
        while True:
            place += 1
            if place >= len(header) or shift > 28:
                return 0
            value |= (header[place] & 0x7F) << shift
            shift += 7
            if header[place] < 0x80:
                break
        fields.append(value >> 1)
        place += 1
    return fields[1]


def _expanded(batch: pa.RecordBatch) -> int:
    return sum(_bytes_of(column) for column in batch.columns)


def _bytes_of(array: Any) -> int:
    """Return the bytes of an array's values, each value of a dictionary as often as it is used."""
    if pa.types.is_dictionary(array.type):
        if not len(array.dictionary):
            return 8 * len(array)
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + 8 * len(array)
    if pa.types.is_map(array.type):
        first, last = (array.offsets[place].as_py() for place in (0, -1))
        return sum(_bytes_of(each.slice(first, last - first)) for each in (array.keys, array.items)) + 8 * len(array)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _bytes_of(array.flatten()) + 8 * len(array)
    if pa.types.is_struct(array.type):
        return sum(map(_bytes_of, array.flatten())) + 8 * len(array)
    return int(array.nbytes)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch until no piece of several rows has more than `row_bytes`."""
    if len(batch) > 1 and _expanded(batch) > limits().row_bytes:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
        return
    if len(batch) and _expanded(batch) > 4 * limits().row_bytes:
        raise ParquetBombError(f"a row of it has {_expanded(batch):,} bytes; {REMEDY}")
    yield batch
