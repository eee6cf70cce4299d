"""Stage `cooccurrences`: how often words occur near each other (GloVe, section 4.2), for corpora larger than memory.

The sequences are counted part by part in a table of fixed size (tasks/embed/pair_counts.py). Whenever it is half full,
its pairs go to a file of the build's scratch folder, cut into partitions by their hashes. Then each partition is added
up over all files, one unit of work per partition. Windows do not cross segments.

Time grows with the words times the window. Memory: the table (128 MB), then one partition, at most `PAIRS_AT_ONCE`
pairs of about 60 bytes. On the disk, 16 bytes per pair and file. The result does not depend on the number of workers,
parts or partitions.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

import fsspec
import numpy as np
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter, open_scratch
from infra.stage import Output, StageParams, stage
from tasks.embed.pair_counts import LONGEST_WINDOW, SLOTS, PairCounts, count_pairs, in_order, partition_borders, unit

PAIRS_AT_ONCE = 1 << 24
"""Pairs that a partition may have before equal ones are added up."""
ROWS_AT_ONCE = 1 << 18


class CooccurrencesParams(StageParams):
    """Settings of what counts as near."""

    window: int = Field(
        default=15, ge=1, le=LONGEST_WINDOW, description="Largest distance of two words; at distance d they count 1/d."
    )


@dataclass(frozen=True)
class NumberedPart:
    """A part of sequences and its number."""

    number: int
    part: Part


@stage(name="cooccurrences", version=1, params=CooccurrencesParams, tables=("cooccurrences",), heavy=True)
def cooccurrences(inputs: Mapping[str, Artifact], params: CooccurrencesParams, out: Output) -> None:
    """Count the pairs of near words in `inputs["sequences"]`."""
    found = inputs["sequences"]
    parts = [NumberedPart(number, part) for number, part in enumerate(found.parts("word_sequences"))]
    pairs = found.manifest.counters.get("words", 0) * params.window
    partitions = max(1, -(-pairs // PAIRS_AT_ONCE))
    scratch = out.scratch
    out.map(count_part, parts, partitions, scratch, SLOTS, params)
    out.map(add_partition, range(partitions), partitions, scratch, params)


def count_part(
    writer: PartWriter, numbered: NumberedPart, partitions: int, scratch: str, slots: int, params: CooccurrencesParams
) -> None:
    """Write the pairs of one part to files, cut into partitions."""
    # A killed run may have left files; one that counted with another table size must not be added to these.
    filesystem, folder = fsspec.core.url_to_fs(scratch)
    for path in filesystem.glob(posixpath.join(folder, f"pairs-{numbered.number:06d}-*")):
        filesystem.rm_file(path)
    rows = numbered.part.read()["rows"].combine_chunks()
    words_T = rows.values.to_numpy()
    borders = rows.offsets.to_numpy().astype(np.int64)
    for run, counts in enumerate(count_pairs(words_T, borders, params.window, slots)):
        with open_scratch(posixpath.join(scratch, f"pairs-{numbered.number:06d}-{run:04d}")) as file:
            for array in (partition_borders(counts, partitions), counts.keys, counts.sums):
                file.write(array.tobytes())
    writer.count("words", len(words_T))


def add_partition(writer: PartWriter, number: int, partitions: int, scratch: str, params: CooccurrencesParams) -> None:
    """Write the pairs of one partition, added up over all files, in the order of their hashes."""
    filesystem, folder = fsspec.core.url_to_fs(scratch)
    paths = sorted(filesystem.glob(posixpath.join(folder, "pairs-*")))
    slices = [_slice(filesystem, path, number, partitions) for path in paths]
    counts = in_order(
        np.concatenate([np.empty(0, np.uint64), *(one.keys for one in slices)]),
        np.concatenate([np.empty(0, np.int64), *(one.sums for one in slices)]),
    )
    values = (counts.sums / unit(params.window)).astype(np.float32)
    writer.write("cooccurrences", schemas.COOCCURRENCES.empty_table())
    rows, columns = counts.rows, counts.columns
    for first in range(0, len(values), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        writer.write("cooccurrences", pa.table({"row": rows[some], "column": columns[some], "count": values[some]}))
    writer.count("pairs", len(values))


def _slice(filesystem: fsspec.AbstractFileSystem, path: str, number: int, partitions: int) -> PairCounts:
    """Read one partition's pairs of a file."""
    with filesystem.open(path, "rb") as file:
        borders = np.frombuffer(file.read(8 * (partitions + 1)), dtype=np.int64)
        first, end, pairs = int(borders[number]), int(borders[number + 1]), int(borders[-1])
        arrays = []
        for start, kind in ((len(borders), np.uint64), (len(borders) + pairs, np.int64)):
            file.seek(8 * (start + first))
            arrays.append(np.frombuffer(file.read(8 * (end - first)), dtype=kind))
    return PairCounts(*arrays)
