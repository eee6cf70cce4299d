"""Tables as plain bytes: what a unit of work is told travels to its worker so, and rows are measured by them."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def packed(frame: pl.DataFrame) -> bytes:
    """A frame as a plain value that travels to workers."""
    return _stream(frame.to_arrow()).to_pybytes()


def unpacked(packed: bytes) -> pl.DataFrame:
    with pa.ipc.open_stream(packed) as stream:
        return pl.DataFrame(stream.read_all())


def unpadded(table: pa.Table) -> pa.Table:
    """The table with nothing but its rows in memory, however they came there: its `nbytes` decide where a part ends."""
    with pa.ipc.open_stream(_stream(table.combine_chunks())) as stream:
        return stream.read_all()


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
