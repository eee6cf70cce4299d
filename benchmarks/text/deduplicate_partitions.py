"""Deduplication of a large corpus by partitions: memory and time of its steps that are not about text.

    python benchmarks/text/deduplicate_partitions.py [--millions 1 --millions 10 …] [--partitions 0] [--folder FOLDER]
        [--output FILE.md]

Synthetic, and of a corpus only what these steps see: keys and bands. A document has a random key and three bands (a
real one has 21; more bands give the same pairs more often). A tenth of the documents repeats the key of another. Three
tenths share a band with the document before them, so that runs of them are chains; all candidates are promising.

Measured are the stage `candidates`, then of the stage `near` everything up to the buckets (distinct pairs, places, rows
of texts, fingerprints, components by rounds, names), then of `deduplicate` everything up to the drops of each part.
Texts are neither read nor compared.

Each run is a process of its own with one thread, in which every unit of work runs. Peak memory is its "Maximum resident
set size" by /usr/bin/time -v, and includes the program (about 200 MB). `--partitions 0` takes as many as the stages do
(one for up to 4 million documents; then what is measured is the path in one process), another number is taken as given.
30 and 100 million documents need some 20 and 70 GB of disk below FOLDER.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402

ROWS_PER_PART = 250_000
BANDS = 3


def measure(documents: int, partitions: int, folder: Path) -> dict[str, Any]:
    """Make the sketches of so many documents in this process, and measure the steps on them."""
    import numpy as np
    import pyarrow as pa

    from infra import schemas
    from infra.artifacts import ArtifactStore
    from infra.builds import PartWriter
    from infra.stage import Output, StageParams, run, stage
    from tasks.deduplicate import near_partitions
    from tasks.deduplicate.clusters import components
    from tasks.deduplicate.compared import named_clusters
    from tasks.deduplicate.near import _fingerprints_of, _texts_in
    from tasks.deduplicate.pairs import candidates, ends, promising_pairs
    from tasks.deduplicate.partitions import partitions_for
    from tasks.deduplicate.repeats import drops_in_partitions, find_drops
    from tasks.deduplicate.similarity import BINS
    from tasks.deduplicate.sketches import KEY, NearParams
    from tasks.deduplicate.stage import _doc_ids, _repeated
    from tasks.deduplicate.star_rounds import star_components

    class Size(StageParams):
        documents: int
        partitions: int = 0

    def numbers(row: np.ndarray, seed: int) -> np.ndarray:
        """A random 64-bit number for each row, the same whenever it is drawn: SplitMix64."""
        value = (row.astype(np.uint64) + np.uint64(seed << 40)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
        return value ^ (value >> np.uint64(31))

    def sketch_rows(part: PartWriter, first: int, documents: int) -> None:
        row = np.arange(first, min(first + ROWS_PER_PART, documents), dtype=np.uint64)
        kind = numbers(row, 1) % np.uint64(10)
        # Kind 0 repeats the text of a document anywhere before it, kinds 1 to 3 are nearly the one just before them.
        text = np.where((kind == 0) & (row > 0), numbers(row, 2) % np.maximum(row, 1), row)
        columns: dict[str, Any] = {
            "key_high": numbers(text, 3),
            "key_low": numbers(text, 4),
            "doc_id": pa.array(row).cast(pa.string()),
            "characters": np.full(len(row), 400, dtype=np.uint32),
            "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(BINS), len(row), [None, pa.py_buffer(bytes(BINS * len(row)))]
            ).cast(pa.binary()),
        }
        for band in range(schemas.MAX_BANDS):
            # Of kinds 1 to 3 one band is that of the document before, another for each of three: runs are chains.
            own_kind = numbers(text, 1) % np.uint64(10)
            is_near = (own_kind >= 1) & (own_kind <= 3) & (text > 0) & (text % np.uint64(BANDS) == band)
            like = np.where(is_near, text - np.uint64(1), text)
            used = band < BANDS
            columns[f"band_{band:02d}"] = numbers(like, 10 + band) if used else pa.nulls(len(row), pa.uint64())
        part.write("sketches", pa.table(columns))

    @stage(name="synthetic", version=1, params=Size, tables=("sketches",))
    def synthetic(inputs: Mapping[str, Any], params: Size, out: Output) -> None:
        for first in range(0, params.documents, ROWS_PER_PART):
            with out.part() as part:
                sketch_rows(part, first, params.documents)

    store = ArtifactStore(folder)
    found = run(synthetic, store, Size(documents=documents), {}).artifact
    clock = [time.perf_counter()]
    pairs = run(candidates, store, NearParams(), {"sketches": found}).artifact
    clock.append(time.perf_counter())
    count = partitions or partitions_for(documents)
    seen: dict[str, int] = {}

    @stage(name="clusters", version=1, params=Size, tables=("near", "compared"))
    def in_partitions(inputs: Mapping[str, Any], params: Size, out: Output) -> None:
        plan = near_partitions.plan_for(inputs["candidates"], found.parts(), found.parts(), NearParams(), out, count)
        near_partitions.keep_pairs(out, plan, inputs["candidates"].parts(), found.parts())
        stars = star_components(out, plan.to_partitions("edges"))
        seen["rounds"] = int(re.findall(r"\d+", stars.name)[-1])
        out.prepare(near_partitions.send_members, range(count), plan, stars)
        out.prepare(near_partitions.name_clusters, range(count), plan)
        seen["pairs"] = int(plan.own("promising").counts().sum())
        seen["clusters"] = int(plan.own("clusters").counts().sum())

    @stage(name="clusters", version=1, params=Size, tables=("near", "compared"))
    def in_one(inputs: Mapping[str, Any], params: Size, out: Output) -> None:
        distinct = inputs["candidates"].scan().unique().collect(engine="streaming")
        texts = _texts_in(distinct, found)
        placed = promising_pairs(distinct, texts, _fingerprints_of(texts, found.parts()), 0.8)
        component = components(len(texts), *ends(placed))
        clusters = named_clusters(texts.select(KEY).to_numpy(), *ends(placed), component)
        seen.update(rounds=0, pairs=len(placed), clusters=len(clusters))

    @stage(name="drops", version=1, params=Size, tables=("near",))
    def drops(inputs: Mapping[str, Any], params: Size, out: Output) -> None:
        near = inputs["near"]
        if count > 1:
            drops_in_partitions(found.parts(), found.parts(), near, out, count)
        else:
            import polars as pl

            repeated = _repeated(found.scan().select(KEY), pl.DataFrame(near.to_table("near")))
            find_drops(repeated.with_columns(doc_id=_doc_ids(found.parts(), repeated["row"])))

    size = Size(documents=documents, partitions=count)
    near = run(in_partitions if count > 1 else in_one, store, size, {"candidates": pairs}).artifact
    clock.append(time.perf_counter())
    run(drops, store, size, {"near": near})
    clock.append(time.perf_counter())
    seconds = [after - before for before, after in itertools.pairwise(clock)]
    return {"partitions": count, "candidates": pairs.rows(), "seconds": seconds, **seen}


def in_a_process(documents: int, partitions: int, folder: Path | None) -> list[str]:
    """A row of the page: one run, below /usr/bin/time."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        command = ["/usr/bin/time", "-v", sys.executable, __file__, "--measure", str(documents), "--folder", name]
        environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--partitions", str(partitions)], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    # "Maximum resident set size (kbytes): 512304"
    peak = int(re.findall(r"Maximum resident set size \(kbytes\): (\d+)", done.stderr)[0]) * 1024
    # "User time (seconds): 12.50"
    cpu = sum(float(value) for value in re.findall(r"(?:User|System) time \(seconds\): ([\d.]+)", done.stderr))
    row = [
        f"{documents / 1e6:g} M",
        f"{found['partitions']}",
        f"{found['candidates']:,}",
        f"{found['pairs']:,}",
        f"{found['clusters']:,}",
        f"{found['rounds']}",
        *(f"{seconds:,.0f}" for seconds in found["seconds"]),
        f"{cpu:,.0f}",
        f"{peak / 1e6:,.0f}",
        f"{peak / documents:,.0f}",
    ]
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, action="append", help="of documents; several times (1 and 10)")
    parser.add_argument("--partitions", type=int, action="append", help="of texts; several times; 0: as the stages do")
    parser.add_argument("--folder", type=Path, help="folder for temporary stores")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.partitions[0], options.folder)))
        return
    rows = [
        in_a_process(int(millions * 1e6), partitions, options.folder)
        for millions in options.millions or [1, 10]
        for partitions in options.partitions or [0]
    ]
    head = ["documents", "partitions", "candidate rows", "pairs", "clusters", "rounds", "candidates, s", "clusters, s"]
    head += ["drops, s", "CPU s, all", "peak MB", "peak bytes per document"]
    page = [
        f"# Deduplication by partitions, {date.today()}",
        "",
        "Keys and bands alone, synthetic: the steps of deduplication that hold something of all documents. "
        f"{BANDS} bands; a tenth of the documents repeats another, three tenths are near copies of the one before. "
        f"One process and one thread; Python {platform.python_version()}, {cpu_name()}. CPU seconds include making the "
        "sketches. Rounds: those that moved an edge.",
        "",
        *table(head, rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
