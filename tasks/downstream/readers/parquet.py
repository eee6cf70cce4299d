"""Parquet files that hold all splits of a task, distinguished by `orig_split`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from infra.errors import UserError
from tasks.downstream.spec import Row, Split

SPLIT = "orig_split"


def parquet_splits(path: Path) -> set[str]:
    """Return the splits in a file.

    Raises:
        UserError: it is not a Parquet file, or has no such column.
    """
    try:
        frame = pl.scan_parquet(path)
        if SPLIT not in frame.collect_schema():
            raise UserError(f"{path} has no column {SPLIT}; its columns are {', '.join(frame.collect_schema())}.")
        return set(frame.select(SPLIT).unique().collect()[SPLIT])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from error


def read_parquet(path: Path, split: Split) -> Iterator[Row]:
    """Yield the rows of one split, numbered from 1 in the file; `entities` are already in the common form."""
    frame = pl.scan_parquet(path).with_row_index("row").filter(pl.col(SPLIT) == split).drop(SPLIT).collect()
    for row in frame.iter_rows(named=True):
        yield Row(f"row {row.pop('row') + 1}", row)
