"""Rows on their way between units of work: files in a build's scratch folder, with a batch of rows per receiver.

A step of work that needs rows from everywhere is cut in two: units of the first step *send* each row to the unit of the
second that wants it, and those *receive* what all have sent. So no process holds more than it sends or receives. A file
is written by one unit and is complete or absent; it stays until the artifact is committed, so a killed build resumes
between any two units.

Time and disk grow with the rows, and with senders times receivers: a receiver opens the file of every sender.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa

from infra.builds import open_scratch

_ROWS, _NOTE = b"rows", b"note"


@dataclass(frozen=True)
class Shuffle:
    """One exchange of rows between units of work. A plain value, which travels to the units."""

    scratch: str
    """Folder or URI, as `infra.stage.Output.scratch` gives it."""
    name: str
    """Name of the exchange, different for each of a build."""
    senders: int
    receivers: int = 1

    def send(self, sender: int, rows: pl.DataFrame, to: np.ndarray | None = None, note: int = 0) -> None:
        """Write everything that a sender sends. Again, after a kill, it writes the same file.

        Args:
            sender: its number, from 0.
            rows: frame with the same columns for all senders.
            to: int (N,), the receiver of each row; by default all rows go to the first.
            note: a number for whoever directs the units, as `notes` returns it.
        """
        receivers = np.zeros(len(rows), dtype=np.int64) if to is None else to
        order = np.argsort(receivers, kind="stable")
        cuts = np.searchsorted(receivers[order], np.arange(self.receivers + 1))
        # Views of strings would take the characters of all rows into every batch.
        table = rows[order].to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
        counts = np.diff(cuts).astype("<i8")
        schema = table.schema.with_metadata({_ROWS: counts.tobytes(), _NOTE: str(note).encode()})
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with open_scratch(self._file(sender)) as file, pa.ipc.new_file(file, schema, options=options) as written:
            for batch in table.to_batches():  # one, or none where there are no rows
                for first, end in itertools.pairwise(cuts.tolist()):
                    if first < end:
                        written.write_batch(batch.slice(first, end - first).replace_schema_metadata(schema.metadata))

    def receive(self, receiver: int = 0, senders: Iterable[int] | None = None) -> pl.DataFrame:
        """Return what all senders, or some, have sent to a receiver: by sender, then in the order of sending.

        Raises:
            ValueError: there are no senders, so that the columns are unknown.
        """
        batches, schema = [], None
        for sender in range(self.senders) if senders is None else senders:
            with self._opened(sender) as (reader, counts):
                schema = reader.schema.remove_metadata()
                if counts[receiver]:
                    # Receivers without rows have no batch.
                    batch = reader.get_batch(int(np.count_nonzero(counts[:receiver])))
                    batches.append(batch.replace_schema_metadata(None))
        if schema is None:
            raise ValueError(f"the exchange {self.name} has no senders")
        return pl.DataFrame(pa.Table.from_batches(batches, schema))

    def kept(self, sender: int) -> pl.DataFrame:
        """Return what one sender has sent to the first receiver: its own rows, for later steps of its own."""
        return self.receive(0, [sender])

    def counts(self) -> np.ndarray:
        """Return the number of rows from each sender to each receiver: int64 (senders, receivers)."""
        found = np.zeros((self.senders, self.receivers), dtype=np.int64)
        for sender in range(self.senders):
            with self._opened(sender) as (_, counts):
                found[sender] = counts
        return found

    def notes(self) -> list[int]:
        """Return the note of each sender."""
        found = []
        for sender in range(self.senders):
            with self._opened(sender) as (reader, _):
                found.append(int(reader.schema.metadata[_NOTE]))
        return found

    def _file(self, sender: int) -> str:
        return posixpath.join(self.scratch, f"{self.name}-{sender:06d}.arrow")

    @contextmanager
    def _opened(self, sender: int) -> Iterator[tuple[pa.ipc.RecordBatchFileReader, np.ndarray]]:
        with fsspec.open(self._file(sender), "rb") as file, pa.ipc.open_file(file) as reader:
            yield reader, np.frombuffer(reader.schema.metadata[_ROWS], dtype="<i8")
