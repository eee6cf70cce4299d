"""Worker processes against a private Ray: the corpus flow at several sizes, with two workers.

    python benchmarks/text/executors.py --data FOLDER [--megabytes 1 100 1000] [--repeat 2] [--output FILE.md]

FOLDER contains Parquet files of real text, such as ../shared/data, which is read and not copied into the repository. To
reach a size, more texts are drawn as in benchmarks/text/corpus.py (clauses of the real ones, shuffled: synthetic).
Every run is `python -m flows run corpus/refresh`, a process of its own with a fresh store; wall seconds are those that
a user waits, start-up included. The executors take turns, so that a machine that slows down slows both. Both must make
the same artifact.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

EXECUTORS = ("processes", "ray")
WORKERS = 2


def measure(corpus: Path, megabytes: float, executor: str) -> tuple[list[str], str]:
    """Run the flow once; returns a row of the page and the hashes of the segments."""
    from benchmarks.text.corpus import by_time, run_flow
    from infra.artifacts import ArtifactStore

    os.environ["YIWEN_EXECUTOR"] = executor
    os.environ.pop("RAY_ADDRESS", None)
    with tempfile.TemporaryDirectory(prefix="yiwen-executors-") as home:
        wall = run_flow(corpus, Path(home), WORKERS)
        made = by_time(ArtifactStore(home).list())
        stages = sum(artifact.manifest.wall_seconds for artifact in made if artifact.manifest.stage in TOP)
        cpu = sum(artifact.manifest.cpu_seconds for artifact in made)
        peak = max(artifact.manifest.peak_memory_bytes for artifact in made) / 2**20
        (segments,) = [artifact.manifest for artifact in made if artifact.manifest.stage == "segment"]
        hashes = [part.sha256 for part in segments.tables["segments"].parts]
    row = [f"{megabytes:,.0f}", executor, f"{wall:.1f}", f"{stages:.1f}", f"{cpu:.1f}", f"{peak:,.0f}"]
    return row, " ".join(hashes)


TOP = ("ingest", "clean", "deidentify", "deduplicate", "segment", "report_corpus")
"""Stages that the flow itself runs; others run inside them, and their seconds are in theirs."""


def main() -> None:
    """Measure, print, save."""
    from benchmarks.pages import cpu_name, publish, table
    from benchmarks.text.corpus import megabytes_of, write_corpus
    from benchmarks.text.near_duplicates import corpus as draw

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[list[str]] = []
    for megabytes in options.megabytes:
        texts = draw(options.data, megabytes, seed=1)[0]
        with tempfile.TemporaryDirectory(prefix="yiwen-executors-") as folder:
            write_corpus(Path(folder), texts)
            size, results = megabytes_of(texts), set()
            del texts
            for _ in range(options.repeat):
                for executor in EXECUTORS:
                    row, result = measure(Path(folder), size, executor)
                    rows.append(row)
                    results.add(result)
                    print(row, file=sys.stderr, flush=True)
        assert len(results) == 1, "the executors made different segments"
    page = [
        f"# Worker processes and a private Ray, {date.today()}",
        "",
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, {WORKERS} workers; text of {options.data.name}, more "
        "drawn from its clauses; a tenth of the texts has a planted near duplicate. Both executors made the same "
        "segments, byte for byte. Wall seconds are those of the command, start-up included.",
        "",
        *table(["MB", "executor", "wall s", "of it stages", "CPU s of stages", "peak MiB"], rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
