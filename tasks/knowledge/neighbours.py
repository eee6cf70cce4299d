"""Stage `neighbours`: the most important neighbours of every entity of a knowledge graph, by PEPR (kg/pepr/ranking.py).

    graph → eliminated, here → inverse of the core (a unit per block) → scores, here → ranks (a unit per range)

A row is a neighbour with the first triple that joins the two and, mostly empty, the others (`Candidates` has their
order). In the fused CMeKG 55,063 of 875,021 pairs are joined by several.

Entity frequencies of the corpus are not an input: Eq. 1 of SMedBERT only starts from them, and converged scores do not
depend on the start.

Time on one core: 1 to 2 minutes for CMeKG, half an hour for a graph of SMedBERT's size. Nearly all of it is the inverse
of the core, which uses all cores. Memory of one process: the square of the core (4 bytes · 14,000² for CMeKG, 4 ·
44,000² for the other), bounded by `max_dense`. A larger core is solved block by block, on all workers.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from infra import schemas
from infra.artifacts import Artifact
from infra.builds import PartWriter, open_scratch
from infra.stage import Output, stage
from kg.graph import KnowledgeGraph
from kg.pepr.core_inverse import inverse_entries
from kg.pepr.ranking import Candidates, joining_triples, prepare, score_candidates, top
from tasks.knowledge.params import NeighbourParams

CANDIDATES_A_UNIT = 1 << 18
"""Rows that one unit ranks; at least those of one entity."""


@stage(name="neighbours", version=3, params=NeighbourParams, tables=("neighbours",), unit="unit", heavy=True)
def neighbours(inputs: Mapping[str, Artifact], params: NeighbourParams, out: Output) -> None:
    """Rank the neighbours in `inputs["graph"]`, an artifact with the tables kg_entities and kg_triples.

    Raises:
        UserError: the tables are not a graph.
    """
    tables = inputs["graph"]
    graph = KnowledgeGraph.from_tables(tables.to_table("kg_entities"), tables.to_table("kg_triples"))
    system = prepare(graph, params.alpha, params.max_dense)
    scratch = out.scratch
    _save(_core_file(scratch), data=system.core.data, indices=system.core.indices, indptr=system.core.indptr)
    blocks = [(block.start, block.stop) for block in system.blocks]
    out.map(invert_block, blocks, scratch)
    entries = [_load(_block_file(scratch, first))["entries"] for first, _ in blocks]
    found = score_candidates(graph, system, entries, params.alpha)
    # Workers get the path of their rows, not the rows: Ray's memory for data is small.
    ranges = []
    for first, rows in _ranges(graph, found):
        with open_scratch(_range_file(scratch, first)) as file:
            pq.write_table(rows, file)
        ranges.append(first)
    out.map(rank_range, ranges, scratch, params.k)


def invert_block(writer: PartWriter, block: tuple[int, int], scratch: str) -> None:
    """Write the entries of some rows of the core's inverse into a file of their own."""
    stored = _load(_core_file(scratch))
    core = sparse.csr_array((stored["data"], stored["indices"], stored["indptr"]))
    _save(_block_file(scratch, block[0]), entries=inverse_entries(core, range(*block)))
    writer.count("core_entities", block[1] - block[0])


def rank_range(writer: PartWriter, first: int, scratch: str, k: int) -> None:
    """Write the best neighbours of each entity of a range, whose file has all of their neighbours with scores."""
    with fsspec.open(_range_file(scratch, first), "rb") as file:
        rows = pq.read_table(file)
    # An entity's rows follow each other: runs of equal ids are the entities.
    sizes = pl.Series(rows["entity_id"]).rle().struct.field("len").to_numpy()
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places, ranks, scores = top(offsets, rows["score"].to_numpy(), k)
    best = rows.take(pa.array(places))
    columns = {name: best[name] for name in best.column_names} | {"rank": ranks.astype(np.int32), "score": scores}
    writer.write("neighbours", pa.table({name: columns[name] for name in schemas.NEIGHBOURS.names}))
    writer.count("entities", len(sizes))
    writer.count("candidates", len(rows))
    several = pc.greater(pc.list_value_length(rows["others"]), 0)
    writer.count("candidates_with_several_triples", several.to_numpy().sum().item())


def _ranges(graph: KnowledgeGraph, found: Candidates) -> Iterator[tuple[int, pa.Table]]:
    """Yield all candidates in units of whole entities: the number of the first row, and the rows."""
    ids = pa.array(graph.entity_ids, pa.string())
    owners = found.owners
    first = 0
    while first < len(owners):
        # End at the last border between entities within the limit, or after one entity that exceeds it alone.
        full = int(np.searchsorted(found.offsets, first + CANDIDATES_A_UNIT, side="right")) - 1
        last = int(found.offsets[max(full, owners[first] + 1)])
        yield (
            first,
            pa.table(
                {
                    "entity_id": ids.take(pa.array(owners[first:last])),
                    "neighbour_id": ids.take(pa.array(found.neighbours[first:last])),
                    **joining_triples(graph, found, np.arange(first, last)),
                    "score": found.scores[first:last],
                }
            ),
        )
        first = last


def _core_file(scratch: str) -> str:
    return posixpath.join(scratch, "core.npz")


def _block_file(scratch: str, first: int) -> str:
    return posixpath.join(scratch, f"inverse-{first:08d}.npz")


def _range_file(scratch: str, first: int) -> str:
    return posixpath.join(scratch, f"candidates-{first:012d}.parquet")


def _save(path: str, **arrays: np.ndarray) -> None:
    with open_scratch(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub mistakes the names for options


def _load(path: str) -> Mapping[str, Any]:
    with fsspec.open(path, "rb") as file:
        return dict(np.load(io.BytesIO(file.read()), allow_pickle=False))
