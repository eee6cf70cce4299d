"""Small tables as plain values: what a unit of work is told travels to its worker as bytes."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def packed(frame: pl.DataFrame) -> bytes:
    """A frame as a plain value that travels to workers."""
    sink = pa.BufferOutputStream()
    table = frame.to_arrow()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def unpacked(packed: bytes) -> pl.DataFrame:
    with pa.ipc.open_stream(packed) as stream:
        return pl.DataFrame(stream.read_all())
