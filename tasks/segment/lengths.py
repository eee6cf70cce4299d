"""Histograms of text lengths by sub-domain, counted part by part and added up for the page about the corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

LENGTH_BINS = [0, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
"""Lower borders of the bins; the last bin has no upper border."""

_MEASURED = pa.schema([("source", pa.string()), ("length", pa.int64()), ("bytes", pa.int64())])


def measured(texts: pa.Table, length: str | None = None) -> pa.Table:
    """Return sub-domain, length and bytes of texts, for `length_counts`.

    Args:
        texts: table with the columns source and text.
        length: column with the lengths; without it they are counted in characters.
    """
    text = texts["text"]
    lengths = texts[length] if length else pc.utf8_length(text)
    return pa.table([texts["source"], lengths, pc.binary_length(text)], names=_MEASURED.names).cast(_MEASURED)


def length_counts(counted: str, texts: Sequence[pa.Table]) -> pa.Table:
    """Return rows of the table `lengths` by source and bin.

    Args:
        counted: name of the texts: documents or segments.
        texts: tables of `measured`.
    """
    found = pl.DataFrame(pa.concat_tables([_MEASURED.empty_table(), *texts]))
    bins = np.searchsorted(LENGTH_BINS, found["length"].to_numpy(), side="right") - 1
    return (
        found.with_columns(counted=pl.lit(counted), bin=pl.Series(bins, dtype=pl.Int64))
        .group_by("counted", "source", "bin")
        .agg(pl.col("length", "bytes").sum(), rows=pl.len().cast(pl.Int64))
        .select("counted", "source", "bin", "rows", "length", "bytes")
        .sort("source", "bin")
        .to_arrow()
    )
