"""Tables as plain bytes, for arguments that travel to workers and for measuring rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import fsspec
import polars as pl
import pyarrow as pa


@dataclass(frozen=True)
class StoredBytes:
    """Bytes in a file, for arguments that are too many to hold: they identify their content as plain bytes do."""

    path: str
    """Path or URI."""
    sha256: str

    @classmethod
    def of(cls, path: str) -> StoredBytes:
        """Name the bytes of a file by their hash."""
        return cls(path, hashlib.sha256(cls(path, "").read()).hexdigest())

    def read(self) -> bytes:
        """Return the bytes."""
        with fsspec.open(self.path, "rb") as file:
            return bytes(file.read())


def packed(frame: pl.DataFrame) -> bytes:
    """Return a frame as bytes: a plain value that travels to workers and identifies its content (`infra.memo`)."""
    return _stream(frame.to_arrow()).to_pybytes()


def unpacked(packed: bytes) -> pl.DataFrame:
    """Return the frame that was packed."""
    with pa.ipc.open_stream(packed) as stream:
        return pl.DataFrame(stream.read_all())


def unpadded(table: pa.Table) -> pa.Table:
    """Return a copy of the table whose buffers contain its rows and nothing else.

    A slice shares the buffers of its whole table, and readers pad them differently. `PartWriter` ends a part by
    `nbytes`, which must not depend on that.
    """
    with pa.ipc.open_stream(_stream(table.combine_chunks())) as stream:
        return stream.read_all()


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
