"""The whole path from raw text to segments: CPU seconds, memory and what it costs to add new files.

    python benchmarks/corpus.py --data FOLDER [--megabytes 100 300] [--workers 1 2] [--output FILE.md]

FOLDER holds Parquet files of real text. Every string of 40 characters and more is a document; to reach a size, more
are drawn as in benchmarks/near_duplicates.py (clauses of the real ones, shuffled: synthetic). Documents are written as
.jsonl files of 10 MB, half of them under dialogue/, which is de-identified. Each run is a process of its own, in a
fresh store; then one more file is added and the flow runs again. CPU seconds and memory are those of the manifests;
MB are 10^6 bytes of UTF-8 text.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

FILE_BYTES = 10_000_000


def write_corpus(folder: Path, texts: list[str]) -> None:
    """Files of about `FILE_BYTES`, in turns under article/ and dialogue/."""
    number, size = 0, 0
    file = None
    for text in texts:
        if file is None or size > FILE_BYTES:
            if file is not None:
                file.close()
            place = folder / ("article", "dialogue")[number % 2] / f"{number:05d}.jsonl"
            place.parent.mkdir(parents=True, exist_ok=True)
            file, size, number = place.open("w", encoding="utf-8"), 0, number + 1
        line = json.dumps({"text": text}, ensure_ascii=False)
        file.write(line + "\n")
        size += len(line.encode())
    if file is not None:
        file.close()


def run_flow(corpus: Path, home: Path, workers: int) -> float:
    """Wall seconds of the flow, as a user runs it."""
    command = [sys.executable, "-m", "flows", "run", "corpus/refresh", "--param", f"corpus={corpus}"]
    environment = {**os.environ, "YIWEN_HOME": str(home), "YIWEN_WORKERS": str(workers), "PYTHONPATH": str(REPOSITORY)}
    started = time.monotonic()
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def measure(texts: list[str], workers: int) -> tuple[list[list[str]], list[str]]:
    """Rows of the stages' table, and the row of the run."""
    from infra.artifacts import ArtifactStore

    with tempfile.TemporaryDirectory(prefix="yiwen-corpus-") as folder:
        corpus, home = Path(folder, "corpus"), Path(folder, "store")
        cut = len(texts) - max(1, len(texts) // 20)
        write_corpus(corpus, texts[:cut])
        size = sum(len(text.encode()) for text in texts[:cut]) / 1e6
        wall = run_flow(corpus, home, workers)
        first = ArtifactStore(home).list()
        rows, cpu, peak = [], 0.0, 0.0
        for artifact in sorted(first, key=lambda one: one.manifest.created_at):
            manifest = artifact.manifest
            cpu += manifest.cpu_seconds
            peak = max(peak, manifest.peak_memory_bytes / 2**20)
            rows.append(
                [
                    f"{size:,.0f}",
                    str(workers),
                    manifest.stage,
                    f"{manifest.wall_seconds:.1f}",
                    f"{manifest.cpu_seconds:.1f}",
                    f"{size / max(manifest.cpu_seconds, 0.001):,.0f}",
                    f"{manifest.peak_memory_bytes / 2**20:,.0f}",
                ]
            )
        write_corpus(corpus / "new", texts[cut:])
        again = run_flow(corpus, home, workers)
        known = {artifact.fingerprint for artifact in first}
        added = sum(one.manifest.cpu_seconds for one in ArtifactStore(home).list() if one.fingerprint not in known)
    run = [f"{size:,.0f}", str(workers), f"{wall:.0f}", f"{cpu:.0f}", f"{size / cpu:.1f}", f"{peak:,.0f}"]
    return rows, [*run, f"{again:.0f}", f"{added:.0f}"]


def main() -> None:
    """Measure, print, save."""
    from benchmarks.near_duplicates import corpus as draw
    from benchmarks.pages import cpu_name, publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[100])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    stages: list[list[str]] = []
    runs: list[list[str]] = []
    for megabytes in options.megabytes:
        texts, _ = draw(options.data, megabytes, seed=1)
        for workers in options.workers:
            rows, run = measure(texts, workers)
            stages += rows
            runs.append(run)
            print(run, file=sys.stderr, flush=True)
    page = [
        f"# The corpus flow, {date.today()}",
        "",
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores. One tenth of the texts has a planted near duplicate. "
        "`again` is the run after a twentieth more text has come in as new files.",
        "",
        "| MB | workers | wall s | CPU s | MB / CPU s | peak MiB | again, wall s | again, CPU s |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in runs),
        "",
        "| MB | workers | stage | wall s | CPU s | MB / CPU s | peak MiB |",
        "|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in stages),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
