"""Parquet files that hold all splits of a task, distinguished by `orig_split`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from infra.disk.parquet_batches import ParquetBombError, parquet_batches
from infra.errors import UserError
from tasks.downstream.spec import Row, Split

SPLIT = "orig_split"


def parquet_splits(path: Path) -> set[str]:
    """Return the splits in a file.

    Raises:
        UserError: it is not a Parquet file, or has no such column.
    """
    try:
        columns = pl.read_parquet_schema(path)
        if SPLIT not in columns:
            raise UserError(f"{path} has no column {SPLIT}; its columns are {', '.join(columns)}.")
        return {split for batch in parquet_batches(path, columns=[SPLIT]) for split in batch[0].unique().to_pylist()}
    except ParquetBombError as error:
        raise UserError(f"{path} is refused: {error}.") from error
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from error


def read_parquet(path: Path, split: Split) -> Iterator[Row]:
    """Yield the rows of one split, numbered from 1 in the file; `entities` are already in the common form."""
    number = 0
    try:
        for batch in parquet_batches(path):
            for row in batch.to_pylist():
                number += 1
                if row.pop(SPLIT) == split:
                    yield Row(f"row {number}", row)
    except ParquetBombError as error:
        raise UserError(f"{path} is refused: {error}.") from error
