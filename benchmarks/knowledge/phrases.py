"""Phrase mining on the same text by AutoPhrase and the embedded engine: results, and our cost beside the program's.

    python benchmarks/knowledge/phrases.py --data FOLDER [--megabytes 10 100] [--output FILE.md]

FOLDER contains Parquet files of real text and kg_cmekg/triples.parquet. Every string of at least 40 characters is a
document; for a size beyond the real text, more are made of its clauses, shuffled (synthetic). Heads of the knowledge
graph are names: half of them (chosen by a hash) are given as labels, with the package's Wikipedia names; the other half
is held out. Each run is a process of its own, with its own workers. CPU seconds are those of our processes together
(`ours`) and of the program; memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

THRESHOLD = 0.5


def texts_of(data: Path, megabytes: float) -> tuple[list[str], bool]:
    """Texts of about that size, and whether some are synthetic."""
    from benchmarks.text.near_duplicates import corpus, real_texts

    texts = real_texts(data)
    random.Random(1).shuffle(texts)
    if sum(len(text.encode()) for text in texts) < megabytes * 1e6:
        return corpus(data, megabytes, seed=1)[0], True
    taken, size = [], 0.0
    for text in texts:
        if size >= megabytes * 1e6:
            break
        taken.append(text)
        size += len(text.encode())
    return taken, False


def is_held_out(name: str) -> bool:
    """Half of all names, the same every time."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def names_of(data: Path) -> list[str]:
    """Heads of CMeKG."""
    import polars as pl

    return pl.read_parquet(data / "kg_cmekg" / "triples.parquet")["head"].unique().sort().to_list()


def write_segments(home: Path, texts: list[str]) -> None:
    """Segments of the texts, in the store `home`."""
    from infra.artifacts import ArtifactStore
    from infra.stage import Output, StageParams, run, stage
    from tasks.documents import make_document
    from tasks.segment.stage import SegmentParams, segment

    @stage(name="documents", version=1, params=StageParams, tables=("documents",))
    def documents(inputs: Any, params: StageParams, out: Output) -> None:
        for first in range(0, len(texts), 5_000):
            with out.part() as part:
                some = texts[first : first + 5_000]
                part.write("documents", [make_document("article", "", text, {}) for text in some])

    store = ArtifactStore(home)
    found = run(documents, store, StageParams(), {}).artifact
    run(segment, store, SegmentParams(min_tokens=8), {"documents": found})


@contextlib.contextmanager
def memory_of_children() -> Iterator[list[int]]:
    """The largest resident memory of this process's children, looked at twice a second."""
    import psutil

    peak, over, me = [0], threading.Event(), psutil.Process()
    known: list[psutil.Process] = []

    def look() -> None:
        while not over.wait(0.5):
            known[:] = [child for child in known if child.is_running()] or me.children()
            for child in known:
                with contextlib.suppress(psutil.Error):
                    peak[0] = max(peak[0], child.memory_info().rss)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


INNER = ("phrase_candidates", "phrase_votes")
"""Stages that run inside the stage `phrases`; their manifests tell what their units cost, on whatever worker."""


def run_stage(home: Path, labels: Path, what: str, engine: str, workers: int) -> dict[str, Any]:
    """Run one stage in this process, its units on the workers; what it cost."""
    from infra.artifacts import ArtifactStore
    from infra.cluster.session import RayExecutor, start_ray, stop_ray
    from infra.stage import run
    from tasks.files.raw_input import RawInput
    from tasks.phrases.autophrase import wiki_lists
    from tasks.phrases.segments import PhraseSegmentsParams, phrase_segments
    from tasks.phrases.stage import PhrasesParams, name_cutter, phrases

    store = ArtifactStore(home)
    segments, wiki = store.latest("segment"), wiki_lists()
    assert segments is not None and wiki is not None
    list(name_cutter(segments, "words")(["糖尿病肾病"]))  # the dictionary is loaded once a process
    inputs: dict[str, Any] = {"segments": segments, "labels": RawInput(labels), "wiki": wiki}
    if workers > 1:
        start_ray(workers, None)  # a flow has it up, for the stages before
    started = time.monotonic()
    with memory_of_children() as memory:
        if what == "phrases":
            params = PhrasesParams(engine=engine)
            artifact = run(phrases, store, params, inputs, executor=RayExecutor(workers)).artifact
        else:
            inputs = {"segments": segments, "phrases": store.latest("phrases")}
            artifact = run(
                phrase_segments, store, PhraseSegmentsParams(), inputs, executor=RayExecutor(workers)
            ).artifact
    wall = time.monotonic() - started
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    stop_ray()
    inner = [each for name in INNER for each in store.list(name)] if what == "phrases" else []
    manifests = [each.manifest for each in (artifact, *inner)]
    return {
        "wall": wall,
        "ours": sum(manifest.cpu_seconds for manifest in manifests),
        "program": child.ru_utime + child.ru_stime,
        "our_memory": max(manifest.peak_memory_bytes for manifest in manifests) / 2**20,
        "program_memory": memory[0] / 2**20,
        "rows": artifact.rows(),
        "counters": artifact.manifest.counters,
    }


def in_a_process(home: Path, labels: Path, what: str, engine: str, workers: int) -> dict[str, Any]:
    """`run_stage` in a process of its own."""
    command = [sys.executable, __file__, "--run", str(home), str(labels), what, engine, str(workers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def cost_rows(
    megabytes: float, engine: str, workers: int, mined: dict[str, Any], marked: dict[str, Any]
) -> list[list[str]]:
    """Lines of the table of costs: both stages and their sum."""
    both = {name: mined[name] + marked[name] for name in ("wall", "ours", "program")}
    rows = []
    for name, run in (("phrases", mined), ("phrase_segments", marked), ("both", both)):
        added = f"{run['ours'] / run['program']:.1%}" if engine == "autophrase" else ""
        ours, program = (f"{run[peak]:,.0f}" if run.get(peak) else "" for peak in ("our_memory", "program_memory"))
        seconds, program = (f"{run['program']:.1f}", program) if engine == "autophrase" else ("", "")
        where = [f"{megabytes:,.0f}", engine, f"{workers}", name]
        rows.append([*where, f"{run['wall']:.0f}", f"{run['ours']:.1f}", seconds, added, ours, program])
    return rows


KINDS = ("2 words and more", "single words")


def check_equal(one: Path, other: Path) -> None:
    """The same phrases, whatever the workers."""
    from infra.artifacts import ArtifactStore

    tables = [artifact.to_table() for home in (one, other) if (artifact := ArtifactStore(home).latest("phrases"))]
    if len(tables) != 2 or tables[0] != tables[1]:
        raise AssertionError(f"the phrases of {one.name} and {other.name} differ")


def judge(homes: Iterable[Path], held_out: set[str]) -> tuple[list[list[str]], list[str]]:
    """What each engine found, and what both did."""
    import polars as pl

    from infra.artifacts import ArtifactStore

    rows, good = [], {}
    for home in homes:
        artifact = ArtifactStore(home).latest("phrases")
        assert artifact is not None
        engine = artifact.manifest.params["engine"]
        table = artifact.scan().collect().with_columns(is_name=pl.col("surface").is_in(sorted(held_out)))
        is_long = pl.col("words").list.len() > 1
        for kind, part in zip(KINDS, (table.filter(is_long), table.filter(~is_long)), strict=True):
            good[engine, kind] = set(part.filter(pl.col("quality") >= THRESHOLD)["surface"])
            new = part.filter(pl.col("labelled_by") == "none")
            rows.append([engine, kind, f"{part.height:,}", f"{len(good[engine, kind]):,}", *judge_new(new)])
    return rows, [overlap(kind, good["autophrase", kind], good["embedded", kind]) for kind in KINDS]


def judge_new(new: Any) -> list[str]:
    """Of candidates that no label knew: those found, held-out names among them and among the best, and the AUC."""
    import numpy as np
    import polars as pl

    found = new.filter(pl.col("quality") >= THRESHOLD)
    names, others = (np.sort(new.filter(pl.col("is_name") == wanted)["quality"].to_numpy()) for wanted in (True, False))
    below = (np.searchsorted(others, names, side) for side in ("left", "right"))
    area = sum(places.sum() for places in below) / 2 / max(1, len(names) * len(others))
    hits = found["is_name"].sum()
    best = new.sort("quality", "surface", descending=True).head(500)["is_name"].sum()
    return [
        f"{found.height:,}",
        f"{hits:,} ({hits / max(1, found.height):.2%})",
        f"{hits / max(1, len(names)):.2f} of {len(names):,}",
        f"{best}",
        f"{area:.3f}",
    ]


def overlap(kind: str, program: set[str], ours: set[str]) -> str:
    """How far two sets of phrases agree, in words."""
    both = len(program & ours)
    return (
        f"{kind}: both find {both:,}, {both / max(1, len(program | ours)):.1%} of what either finds, "
        f"{both / max(1, len(program)):.1%} of the program's, {both / max(1, len(ours)):.1%} of the embedded engine's."
    )


COST_HEAD = [
    *("MB", "engine", "workers", "stage", "wall s", "our CPU s", "program CPU s", "ours adds"),
    *("our MiB, a process", "program MiB"),
]
FOUND_HEAD = [
    *("engine", "kind", "candidates", "from 0.5", "of them new", "held-out names among the new"),
    *("of all held-out names among the candidates", "names in the best 500 new ones", "AUC"),
]


RUNS = (("autophrase", 1), ("embedded", 1), ("embedded", 2))
"""Engines and numbers of workers."""


def measure(data: Path, megabytes: float) -> tuple[list[list[str]], list[str]]:
    """Rows of the table of costs, and lines on what was found."""
    from benchmarks.pages import table

    texts, synthetic = texts_of(data, megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    names = names_of(data)
    costs: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="yiwen-phrases-") as folder:
        labels = Path(folder, "names.txt")
        labels.write_text("\n".join(name for name in names if not is_held_out(name)), encoding="utf-8")
        write_segments(Path(folder, "segments"), texts)
        homes = [Path(folder, f"{engine}-{workers}") for engine, workers in RUNS]
        for home, (engine, workers) in zip(homes, RUNS, strict=True):
            shutil.copytree(Path(folder, "segments"), home)
            both = ("phrases", "phrase_segments")
            mined, marked = (in_a_process(home, labels, what, engine, workers) for what in both)
            costs += cost_rows(size, engine, workers, mined, marked)
            print(costs[-3:], file=sys.stderr, flush=True)
            words = mined["counters"]["words_of_text"]
        check_equal(*homes[1:])
        found, overlaps = judge(homes[:2], {name for name in names if is_held_out(name)})
    what = "clauses of real text, shuffled: synthetic" if synthetic else "real text"
    lines = [
        f"## {size:,.1f} MB ({what}), {words:,} words",
        "",
        *table(FOUND_HEAD, found),
        "",
        *(f"Overlap at {THRESHOLD}, {line}" for line in overlaps),
        "",
    ]
    return costs, lines


def main() -> None:
    """Measure, print, save."""
    from benchmarks.pages import cpu_name, publish, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with Parquet files of real text")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[10])
    parser.add_argument("--run", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.run:
        home, labels, what, engine, workers = options.run
        print(json.dumps(run_stage(Path(home), Path(labels), what, engine, int(workers))))
        return
    costs, lines = [], []
    for megabytes in options.megabytes:
        more, found = measure(options.data, megabytes)
        costs += more
        lines += found
    page = [
        f"# Phrase mining, {date.today()}",
        "",
        f"AutoPhrase 1.7 (g++ -O3) and the embedded engine, one thread a process; Python {platform.python_version()}, "
        f"{cpu_name()}, which others used too: wall times are disturbed. Minimum support 10, at most 6 words, "
        "2 iterations, 1,000 trees. `ours adds`: our CPU seconds over the program's. Workers are processes, up before "
        "the clock starts; the phrases of one and of two were the same, row by row.",
        "",
        *table(COST_HEAD, costs),
        "",
        "New phrases are those that no label knew. The share of held-out names among them is a lower bound of the "
        "precision (most good phrases are in no knowledge graph) and serves to compare. AUC: the chance that a "
        "held-out name is judged better than another new candidate of the same engine.",
        "",
        *lines,
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
