"""The whole path from raw text to segments: CPU seconds, memory and the cost of adding new files.

    python benchmarks/text/corpus.py --data FOLDER [--run 100:1 --run 100:2 …] [--refresh-up-to 300] [--output FILE.md]

A run is MEGABYTES:WORKERS. FOLDER contains Parquet files of real text. Every string of at least 40 characters is a
document; to reach a size, more are drawn as in benchmarks/text/near_duplicates.py (clauses of the real ones, shuffled:
synthetic). Documents are written as .jsonl files of 10 MB, half of them under dialogue/, which is de-identified. Each
run is a process of its own, in a fresh store. Then, for the smaller sizes, 5 % more text is added as new files and the
flow runs again, twice: first with text unlike any that is there, then with text of which a tenth is planted near
duplicates, most of which replace old documents. CPU seconds and memory are those of the manifests; MB are 10^6 bytes
of UTF-8 text.

Two figures show how fast the processor is that day: the speed at which rjieba, a third-party library, cuts the same
text, and the gain from two independent processes over one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from infra.artifacts import Artifact, Manifest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

FILE_BYTES = 10_000_000


def write_corpus(folder: Path, texts: list[str], prefix: str = "") -> None:
    """Files of about `FILE_BYTES`, in turns under article/ and dialogue/; `prefix` begins their names."""
    number, size = 0, 0
    file = None
    for text in texts:
        if file is None or size > FILE_BYTES:
            if file is not None:
                file.close()
            place = folder / ("article", "dialogue")[number % 2] / f"{prefix}{number:05d}.jsonl"
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


class Measured(NamedTuple):
    """A run: rows of the page's tables."""

    stages: list[list[str]]
    whole: list[str]
    refresh: list[list[str]]


def measure(texts: list[str], workers: int, new_texts: list[str] | None) -> Measured:
    """The flow on all texts but the last twentieth; then, with `new_texts`, on those too, and on that twentieth."""
    from infra.artifacts import ArtifactStore

    with tempfile.TemporaryDirectory(prefix="yiwen-corpus-") as folder:
        corpus, home = Path(folder, "corpus"), Path(folder, "store")
        cut = len(texts) - max(1, len(texts) // 20)
        write_corpus(corpus, texts[:cut])
        size = megabytes_of(texts[:cut])
        wall = run_flow(corpus, home, workers)
        first = ArtifactStore(home).list()
        stages = [stage_row(artifact.manifest, size, workers) for artifact in by_time(first)]
        cpu = sum(artifact.manifest.cpu_seconds for artifact in first)
        peak = max(artifact.manifest.peak_memory_bytes for artifact in first) / 2**20
        whole = [f"{size:,.0f}", str(workers), f"{wall:.0f}", f"{cpu:.0f}", f"{size / cpu:.1f}", f"{peak:,.0f}"]
        refresh = []
        for kind, more in (("nothing known", new_texts), ("a tenth known", texts[cut:])) if new_texts else ():
            known = {artifact.fingerprint for artifact in ArtifactStore(home).list()}
            write_corpus(corpus, more or [], f"{kind} ")
            again = run_flow(corpus, home, workers)
            made = [one for one in ArtifactStore(home).list() if one.fingerprint not in known]
            added = sum(artifact.manifest.cpu_seconds for artifact in made)
            in_segment = sum(artifact.manifest.cpu_seconds for artifact in made if artifact.manifest.stage == "segment")
            share = f"{megabytes_of(more or []) / size:.0%}"
            refresh.append(
                [
                    f"{size:,.0f}",
                    str(workers),
                    kind,
                    share,
                    f"{again:.0f}",
                    f"{added:.0f}",
                    f"{added / cpu:.0%}",
                    f"{in_segment:.0f}",
                ]
            )
    return Measured(stages, whole, refresh)


def by_time(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Artifacts in the order in which they were made."""
    return sorted(artifacts, key=lambda one: one.manifest.created_at)


def stage_row(manifest: Manifest, size: float, workers: int) -> list[str]:
    """What a stage cost."""
    return [
        f"{size:,.0f}",
        str(workers),
        manifest.stage,
        f"{manifest.wall_seconds:.1f}",
        f"{manifest.cpu_seconds:.1f}",
        f"{size / max(manifest.cpu_seconds, 0.001):,.0f}",
        f"{manifest.peak_memory_bytes / 2**20:,.0f}",
    ]


def megabytes_of(texts: Sequence[str]) -> float:
    """10^6 bytes of UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def drawn_texts(texts: Sequence[str], megabytes: float) -> list[str]:
    """New texts of shuffled clauses of some texts, none like another."""
    drawn = random.Random(2)
    clauses = [clause for text in texts[:50_000] for clause in re.split(r"(?<=[，。；！？\n])", text) if clause]
    found: list[str] = []
    size = 0
    while size < megabytes * 1e6:
        found.append("".join(drawn.choices(clauses, k=20)))
        size += len(found[-1].encode())
    return found


def cut_words(texts: Sequence[str]) -> float:
    """CPU seconds that rjieba takes for some texts."""
    import rjieba

    started = time.process_time()
    for text in texts:
        rjieba.cut(text, False)
    return time.process_time() - started


def yardstick(texts: Sequence[str]) -> tuple[float, float]:
    """MB a CPU second of rjieba; and how many times the work of one process two get done in the same time."""
    some = list(texts[:8_000])
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(cut_words, [some[:100]] * 2))  # both are there, with their dictionaries
        started = time.monotonic()
        seconds = pool.submit(cut_words, some).result()
        alone = time.monotonic() - started
        started = time.monotonic()
        list(pool.map(cut_words, [some, some]))
        together = time.monotonic() - started
    return megabytes_of(some) / seconds, 2 * alone / together


def run_of(text: str) -> tuple[float, int]:
    """MEGABYTES:WORKERS of the command line."""
    megabytes, workers = text.split(":")
    return float(megabytes), int(workers)


def _refresh_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "Again, after new files have come in: text that resembles nothing that is there; then text a tenth of which "
        "are near duplicates, mostly of old documents, which they drive out wherever those stand.",
        "",
        "| MB | workers | new text | share of it | wall s | CPU s | share of the first run | of it segment |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def main() -> None:
    """Measure, print, save."""
    from benchmarks.pages import cpu_name, publish
    from benchmarks.text.near_duplicates import corpus as draw

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Parquet files of real text")
    parser.add_argument("--run", type=run_of, action="append", help="MEGABYTES:WORKERS; several times")
    parser.add_argument("--refresh-up-to", type=float, default=300, help="MB; larger runs are not refreshed")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    runs: list[Measured] = []
    speeds: list[list[str]] = []
    texts: list[str] = []
    drawn = 0.0
    for megabytes, workers in options.run or [(100.0, 1), (100.0, 2)]:
        if megabytes != drawn:
            texts, drawn = draw(options.data, megabytes, seed=1)[0], megabytes
        speeds.append([f"{figure:.1f}" for figure in yardstick(texts)])
        is_refreshed = megabytes <= options.refresh_up_to
        runs.append(measure(texts, workers, drawn_texts(texts, megabytes / 20) if is_refreshed else None))
        print(runs[-1].whole, speeds[-1], runs[-1].refresh, file=sys.stderr, flush=True)
    refreshed = [row for run in runs for row in run.refresh]
    page = [
        f"# The corpus flow, {date.today()}",
        "",
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores. One tenth of the texts has a planted near duplicate. "
        "How fast the processor was before each run: what rjieba cut, and how many times the work of one process two "
        "that share nothing got done.",
        "",
        "| MB | workers | wall s | CPU s | MB / CPU s | peak MiB | rjieba, MB / CPU s | two processes |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {' | '.join([*run.whole, *speed])} |" for run, speed in zip(runs, speeds, strict=True)),
        "",
        *(_refresh_lines(refreshed) if refreshed else ()),
        "| MB | workers | stage | wall s | CPU s | MB / CPU s | peak MiB |",
        "|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for run in runs for row in run.stages),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
