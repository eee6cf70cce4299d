"""The corpus flow beside datatrove, on the same files: seconds, memory, and what each drops.

    python benchmarks/text/corpus_peers.py --data FOLDER --datatrove PYTHON [--megabytes 300] [--workers 2]
        [--rounds 1] [--output FILE.md]

Texts are those of benchmarks/text/near_duplicates.py, with its planted copies, in .jsonl files of 10 MB. datatrove
runs under the interpreter given for it (`pip install "datatrove[processing,io]"`), with the steps of its own that come
nearest: Unicode mended by ftfy, addresses of mail and of the network replaced, near duplicates by MinHash with the
buckets for a threshold of 0.8, its words being characters, and Parquet written. It has no step like de-identification
or segmentation; ours does both, so its stages are also told apart. Both have the same number of processes, and both
begin as a user begins them: seconds include imports. CPU seconds are those of all processes of a run; memory is the
largest of one process. Of several rounds, in turns, the one of median CPU seconds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

FILE_BYTES = 10_000_000
THRESHOLD = 0.8
"""Jaccard similarity from which a text is a near duplicate, the default of ours."""
UP_TO_DUPLICATES = ("ingest", "clean", "sketches", "candidates", "near", "deduplicate")
"""Stages of ours that do what datatrove's steps do."""

DATATROVE = """
import os, sys
from types import SimpleNamespace
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import minhash
from datatrove.pipeline.formatters import FTFYFormatter, PIIFormatter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter, ParquetWriter
from datatrove.utils.text import TextNormConfig

minhash.load_word_tokenizer = lambda language: SimpleNamespace(word_tokenize=list)

if __name__ == "__main__":
    corpus, home, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    files = len(os.listdir(corpus))
    clean, signed, paired, gone, kept, logs = (
        os.path.join(home, name) for name in ("clean", "signed", "paired", "gone", "kept", "logs"))
    plain = TextNormConfig(lowercase=False, norm_whitespace=False, remove_punctuation=False,
                           norm_unicode_diacritics=False, norm_numbers=False)
    config = minhash.MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8, norm_config=plain)

    def run(name, steps, tasks):
        LocalPipelineExecutor(steps, tasks=tasks, workers=min(workers, tasks), logging_dir=os.path.join(logs, name),
                              start_method="fork").run()

    run("clean", [JsonlReader(corpus), FTFYFormatter(), PIIFormatter(), JsonlWriter(clean, compression=None)], files)
    run("signed", [JsonlReader(clean), minhash.MinhashDedupSignature(signed, config)], files)
    run("paired", [minhash.MinhashDedupBuckets(signed, paired, config=config)], config.num_buckets)
    run("gone", [minhash.MinhashDedupCluster(paired, gone, config=config)], 1)
    run("kept", [JsonlReader(clean), minhash.MinhashDedupFilter(gone), ParquetWriter(kept)], files)
"""


class Run(NamedTuple):
    """What a run took, and which texts it kept, by their places."""

    wall: float
    cpu: float
    mebibytes: float
    kept: set[int]
    stages: list[tuple[str, float, float, float]]
    """Name, wall seconds, CPU seconds and MiB of each stage, where a tool tells."""
    reasons: dict[str, int]
    """Texts dropped by reason, where a tool tells."""


def write_corpus(folder: Path, texts: Sequence[str]) -> None:
    """Files of about `FILE_BYTES`, a text and its place to a line."""
    file = None
    for place, text in enumerate(texts):
        if file is None or file.tell() > FILE_BYTES:
            if file is not None:
                file.close()
            file = (folder / f"{place:09d}.jsonl").open("w", encoding="utf-8")
        file.write(json.dumps({"text": text, "id": str(place), "place": place}, ensure_ascii=False) + "\n")
    if file is not None:
        file.close()


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of a command with all that it waits for, and MiB of its largest process."""
    code = (
        "import json, resource, subprocess, sys, time\n"
        "started = time.monotonic()\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    wall, cpu, mebibytes = json.loads(done.stdout)
    return wall, cpu, mebibytes


def ours(corpus: Path, home: Path, workers: int) -> Run:
    """`corpus/refresh` with its defaults. What Ray starts is nobody's child, so CPU seconds are those of manifests."""
    import polars as pl

    from infra.artifacts import ArtifactStore

    environment = {**os.environ, "YIWEN_HOME": str(home), "YIWEN_WORKERS": str(workers), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "flows", "run", "corpus/refresh", "--param", f"corpus={corpus}"]
    started = time.monotonic()
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - started
    made = sorted(ArtifactStore(home).list(), key=lambda one: one.manifest.created_at)
    stages = [
        (
            one.manifest.stage,
            one.manifest.wall_seconds,
            one.manifest.cpu_seconds,
            one.manifest.peak_memory_bytes / 2**20,
        )
        for one in made
    ]
    last = next(one for one in made if one.manifest.stage == "deduplicate")
    frames = pl.scan_parquet(f"{last.path}/documents/*.parquet").select("meta").collect()
    kept = {json.loads(meta)["place"] for meta in frames["meta"]}
    whole = (wall, sum(one[2] for one in stages), max(one[3] for one in stages))
    return Run(*whole, kept, stages, _reasons([str(one.path) for one in made]))


def _reasons(artifacts: Sequence[str]) -> dict[str, int]:
    """Rows of the tables of rejects below some artifacts, by reason."""
    import polars as pl

    found: dict[str, int] = {}
    for path in artifacts:
        for file in sorted(Path(path, "rejects").glob("*.parquet")):
            for reason, count in pl.read_parquet(file)["reason"].value_counts().iter_rows():
                found[reason] = found.get(reason, 0) + count
    return found


def datatrove(python: str) -> Callable[[Path, Path, int], Run]:
    """datatrove under an interpreter."""

    def run(corpus: Path, home: Path, workers: int) -> Run:
        import polars as pl

        home.mkdir()
        script = home / "run.py"
        script.write_text(DATATROVE, encoding="utf-8")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        wall, cpu, mebibytes = timed([python, str(script), str(corpus), str(home), str(workers)], environment)
        frames = pl.read_parquet(f"{home}/kept/*.parquet", columns=["id"])
        return Run(wall, cpu, mebibytes, {int(one) for one in frames["id"]}, [], {})

    return run


def caught(kept: set[int], pairs: Sequence[tuple[int, int]]) -> float:
    """Share of planted pairs of which not both are kept."""
    return sum(not (one in kept and other in kept) for one, other in pairs) / max(1, len(pairs))


def main() -> None:
    """Measure, print, save."""
    from benchmarks.pages import cpu_name, publish, table
    from benchmarks.text.near_duplicates import corpus as draw
    from benchmarks.text.near_duplicates import similarity

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--datatrove", required=True, metavar="PYTHON", help="interpreter that has datatrove")
    parser.add_argument("--megabytes", type=float, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    texts, planted = draw(options.data, options.megabytes, seed=1)
    pairs = [(one, other) for one, other in planted if similarity(texts[one], texts[other]) >= THRESHOLD]
    size = sum(len(text.encode()) for text in texts) / 1e6
    tools = {"ours": ours, "datatrove": datatrove(options.datatrove)}
    found: dict[str, list[Run]] = {name: [] for name in tools}
    with tempfile.TemporaryDirectory(prefix="yiwen-peers-") as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        write_corpus(corpus, texts)
        for number in range(options.rounds):
            for name, tool in tools.items():
                found[name].append(tool(corpus, Path(folder, f"{name}{number}"), options.workers))
                print(name, *(round(one, 1) for one in found[name][-1][:3]), file=sys.stderr, flush=True)
    rows = []
    for name, runs in found.items():
        middle = sorted(runs, key=lambda run: run.cpu)[len(runs) // 2]
        rows.append(_row(name, size, middle, len(texts), pairs))
        if middle.stages:
            some = [one for one in middle.stages if one[0] in UP_TO_DUPLICATES]
            rows.append(
                [
                    f"{name}, up to the duplicates",
                    f"{sum(one[1] for one in some):.0f}",
                    f"{sum(one[2] for one in some):.0f}",
                    f"{size / sum(one[2] for one in some):.1f}",
                    f"{max(one[3] for one in some):,.0f}",
                    "",
                    "",
                ]
            )
    stages = [
        [name, f"{statistics.median(one[1] for one in group):.1f}", f"{statistics.median(one[2] for one in group):.1f}"]
        for name, group in _by_stage(found["ours"]).items()
    ]
    page = [
        f"# The corpus flow beside datatrove, {date.today()}",
        "",
        f"{size:,.0f} MB in {len(texts):,} texts, {len(planted):,} of them planted copies, of which {len(pairs):,} "
        f"are at least {THRESHOLD} similar to their originals; {options.workers} processes each; "
        f"{cpu_name()}. Part of the texts is synthetic: clauses of real ones, shuffled.",
        "",
        *table(
            ["tool", "wall s", "CPU s", "MB / CPU s", "MiB of one process", "texts dropped", "planted copies found"],
            rows,
        ),
        "",
        f"Dropped by ours, by reason: {_told(found['ours'][0].reasons)}.",
        "",
        *table(["stage of ours", "wall s", "CPU s"], stages),
        "",
    ]
    publish(page, options.output)


def _row(name: str, size: float, run: Run, texts: int, pairs: Sequence[tuple[int, int]]) -> list[str]:
    dropped, share = texts - len(run.kept), caught(run.kept, pairs)
    speed = f"{size / run.cpu:.1f}"
    return [name, f"{run.wall:.0f}", f"{run.cpu:.0f}", speed, f"{run.mebibytes:,.0f}", f"{dropped:,}", f"{share:.4f}"]


def _told(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(reasons.items(), key=lambda one: -one[1]))


def _by_stage(runs: Sequence[Run]) -> dict[str, list[tuple[str, float, float, float]]]:
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    for run in runs:
        for one in run.stages:
            found.setdefault(one[0], []).append(one)
    return found


if __name__ == "__main__":
    main()
