"""Small operations on frames that several rooms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt
import polars as pl
from polars._typing import PolarsDataType

Schema = Mapping[str, PolarsDataType]


def at(values: pl.Series | npt.NDArray | Sequence[str], places: str) -> pl.Expr:
    """Return an expression for the values at the places in an integer column."""
    series = values if isinstance(values, pl.Series) else pl.Series(values, dtype=_dtype(values))
    return pl.lit(series).gather(pl.col(places))


def stacked(frames: Sequence[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    """Return the frames stacked vertically, with exactly these columns; empty if there are no frames."""
    return pl.concat(
        [pl.DataFrame(schema=schema), *(frame.select(schema.keys()).cast(pl.Schema(schema)) for frame in frames)]
    )


def _dtype(values: npt.NDArray | Sequence[str]) -> type[pl.DataType] | None:
    return None if hasattr(values, "dtype") else pl.String
