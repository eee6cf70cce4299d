"""Knowledge arrays: time and memory of the stage, speed of look-ups, and what several processes share.

    python benchmarks/knowledge/arrays.py [--entities 274163] [--processes 2] [--output FILE.md]

The tables are random, of the size of SMedBERT's graph (274,163 entities, ten neighbours each, vectors of 200, 30
relations with a projection each). A part of the processes' memory is counted by the kernel (/proc/self/smaps): `Rss` is
what a process has mapped, `Pss` its share of that.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from infra.artifacts import Artifact, ArtifactStore  # noqa: E402
from infra.builds import PartWriter  # noqa: E402
from infra.schemas import NEIGHBOURS  # noqa: E402
from infra.stage import Output, StageParams, run, stage  # noqa: E402
from models.knowledge import KnowledgeArrays  # noqa: E402
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays  # noqa: E402

AT_ONCE = 20_000
"""Entities whose rows are written at a time."""


class SizeParams(StageParams):
    """Size of a random graph."""

    entities: int
    neighbours: int
    relations: int
    width: int


def ids(rows: np.ndarray) -> pa.Array:
    """Ids as those of the fused graph: 32 hex digits, ascending."""
    return pa.array([f"{row * 2654435761:032x}" for row in rows.tolist()])


def relation_names(numbers: np.ndarray) -> pa.Array:
    """Names of relations by number."""
    return pa.array([f"relation {number:03d}" for number in numbers.tolist()])


def lists(values: np.ndarray, width: int) -> pa.ListArray:
    """Rows of a matrix as lists."""
    return pa.ListArray.from_arrays(np.arange(0, values.size + 1, width, dtype=np.int32), values.ravel())


def none(rows: int, kind: pa.DataType) -> pa.Array:
    """Empty lists."""
    return pa.array([[]] * rows, kind)


@stage(name="graph", version=1, params=SizeParams, tables=("kg_entities", "kg_triples"))
def random_graph(inputs: Mapping[str, Any], params: SizeParams, out: Output) -> None:
    """Write entities, and a triple for each."""
    with out.part() as part:
        for first in range(0, params.entities, AT_ONCE):
            rows = np.arange(first, min(first + AT_ONCE, params.entities))
            names, empty = ids(rows), none(len(rows), pa.list_(pa.string()))
            kinds = pa.array([f"type {row % 20}" for row in rows.tolist()])
            part.write(
                "kg_entities",
                pa.table({"entity_id": names, "name": names, "aliases": empty, "type": kinds, "sources": empty}),
            )
            relations = relation_names(rows % params.relations)
            tails = ids((rows + 1) % params.entities)
            part.write("kg_triples", pa.table({"head": names, "relation": relations, "tail": tails, "sources": empty}))


@stage(name="neighbours", version=0, params=SizeParams, tables=("neighbours",))
def random_neighbours(inputs: Mapping[str, Any], params: SizeParams, out: Output) -> None:
    """Write as many neighbours for every entity."""
    out.map(write_neighbours, range(0, params.entities, AT_ONCE), params)


def write_neighbours(part: PartWriter, first: int, params: SizeParams) -> None:
    """Write one part."""
    drawn = np.random.default_rng(first)
    rows = np.repeat(np.arange(first, min(first + AT_ONCE, params.entities)), params.neighbours)
    columns = {
        "entity_id": ids(rows),
        "rank": np.tile(np.arange(1, params.neighbours + 1, dtype=np.int32), len(rows) // params.neighbours),
        "neighbour_id": ids(drawn.integers(0, params.entities, len(rows))),
        "relation": relation_names(drawn.integers(0, params.relations, len(rows))),
        "direction": np.where(drawn.random(len(rows)) < 0.5, 1, -1).astype(np.int8),
        "score": drawn.random(len(rows)),
        "others": none(len(rows), NEIGHBOURS.field("others").type),
    }
    part.write("neighbours", pa.table(columns))


@stage(name="kg_embeddings", version=0, params=SizeParams, tables=("kg_entity_vectors", "kg_relation_vectors"))
def random_embeddings(inputs: Mapping[str, Any], params: SizeParams, out: Output) -> None:
    """Write vectors."""
    drawn, width = np.random.default_rng(0), params.width
    with out.part() as part:
        for first in range(0, params.entities, AT_ONCE):
            rows = np.arange(first, min(first + AT_ONCE, params.entities))
            vectors = lists(drawn.random((len(rows), width), dtype=np.float32), width)
            part.write("kg_entity_vectors", pa.table({"entity_id": ids(rows), "vector": vectors}))
        names = relation_names(np.arange(params.relations))
        vectors = lists(drawn.random((params.relations, width), dtype=np.float32), width)
        projections = lists(drawn.random((params.relations, width * width), dtype=np.float32), width * width)
        part.write("kg_relation_vectors", pa.table({"relation": names, "vector": vectors, "projection": projections}))


@stage(name="entity_frequencies", version=0, params=SizeParams, tables=("entity_frequencies",))
def random_frequencies(inputs: Mapping[str, Any], params: SizeParams, out: Output) -> None:
    """Write a count for every second entity."""
    rows = np.arange(0, params.entities, 2)
    with out.part() as part:
        part.write("entity_frequencies", pa.table({"entity_id": ids(rows), "count": rows, "documents": rows}))


def shares(folder: Path, processes: int) -> list[dict[str, int]]:
    """The kernel's counts of the vectors' file in so many processes that have all read it."""
    script = str(REPOSITORY / "tests/support/graphs/mapped_share.py")
    started = [
        subprocess.Popen([sys.executable, script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == "read\n"
        found = []
        for process in started:
            assert process.stdin is not None and process.stdout is not None
            print("count", file=process.stdin, flush=True)
            found.append(json.loads(process.stdout.readline()))
        return found
    finally:
        for process in started:
            process.kill()
            process.wait()


def look_ups(known: KnowledgeArrays, mentions: int, rounds: int, k: int) -> float:
    """Mentions whose best neighbours and their vectors are gathered in a second, in batches of `mentions`."""
    drawn = np.random.default_rng(0)
    batches = [drawn.integers(0, known.num_entities, mentions) for _ in range(rounds)]
    started = time.perf_counter()
    for batch in batches:
        found = known.best(batch, k)
        known.entity_vectors[found.entities]
    return mentions * rounds / (time.perf_counter() - started)


def artifacts(store: ArtifactStore, params: SizeParams) -> dict[str, Artifact]:
    """The inputs of the stage."""
    graph = run(random_graph, store, params, {}).artifact
    found = {"graph": graph}
    for name, work in (("neighbours", random_neighbours), ("embeddings", random_embeddings)):
        found[name] = run(work, store, params, {"graph": graph}).artifact
    return found | {"entity_frequencies": run(random_frequencies, store, params, {}).artifact}


def page_of(artifact: Artifact, options: argparse.Namespace) -> Sequence[str]:
    """Measure what is made of the arrays, and lay out the page."""
    manifest, folder = artifact.manifest, Path(artifact.path)
    started = time.perf_counter()
    known = KnowledgeArrays.open(folder)
    opened = time.perf_counter() - started
    counted = shares(folder, options.processes)
    size = sum(record.bytes for record in manifest.files) / 2**20
    vectors = known.entity_vectors.nbytes / 2**20
    speed = look_ups(known, 2_000, 20, options.neighbours)
    made = [
        f"{known.num_entities:,}",
        f"{len(known.neighbours):,}",
        f"{size:,.0f}",
        f"{manifest.wall_seconds:.1f}",
        f"{manifest.cpu_seconds:.1f}",
        f"{manifest.peak_memory_bytes / 2**20:,.0f}",
        f"{opened:.2f}",
        f"{speed:,.0f}",
    ]
    head = [
        "entities",
        "neighbours",
        "MiB of all files",
        "s of the stage",
        "CPU s",
        "peak MiB of the process",
        "s to open",
        f"mentions / s, with {options.neighbours} neighbours and their vectors",
    ]
    mapped = [
        [f"{number}", *(f"{own[name] / 2**10:,.1f}" for name in ("rss_kib", "pss_kib", "private_kib"))]
        for number, own in enumerate(counted, start=1)
    ]
    total = sum(own["pss_kib"] for own in counted) / 2**10
    return [
        f"# Knowledge arrays, {date.today()}",
        "",
        f"{cpu_name()}; random tables, vectors of {options.width}.",
        "",
        *table(head, [made]),
        "",
        f"Processes that have read all vectors ({vectors:,.1f} MiB); their shares add up to {total:,.1f} MiB:",
        "",
        *table(["process", "Rss, MiB", "Pss, MiB", "private, MiB"], mapped),
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=274_163)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--relations", type=int, default=30)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    names = ("entities", "neighbours", "relations", "width")
    params = SizeParams(**{name: getattr(options, name) for name in names})
    with tempfile.TemporaryDirectory(prefix="yiwen-knowledge-benchmark-") as folder:
        store = ArtifactStore(folder)
        inputs = artifacts(store, params)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"the tables are written; peak memory so far {before:,.0f} MiB")
        artifact = run(knowledge_arrays, store, KnowledgeArraysParams(), inputs).artifact
        publish([*page_of(artifact, options), ""], options.output)


if __name__ == "__main__":
    main()
