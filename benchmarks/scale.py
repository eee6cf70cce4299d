"""What a corpus and a pre-training cost beyond the sizes that were measured, and a simulation of their traffic.

python -m benchmarks.scale --output benchmarks/results/product/scale_DATE.md

Rates are those of the pages that `MEASURED` names. Everything else is arithmetic on them or simulated, and the page
says which: no cluster and no GPU was there. The simulation draws from seeded generators, so that it can be repeated.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.pages import publish, table

SIZES_GB = (1, 10, 127, 1_000)
"""10 GB were measured; 127 GB are eHealth's text."""


@dataclass(frozen=True)
class Measured:
    """A figure, and the page that it was taken from."""

    value: float
    page: str


MEASURED = {
    "corpus, MB per CPU second": Measured(5.0, "text/corpus_2026-11-22.md"),
    "corpus with the recogniser, MB per CPU second": Measured(3.6, "text/corpus_peers_2026-11-24.md"),
    "documents of 10,041 MB": Measured(12_428_738, "text/corpus_2026-11-22.md"),
    "processors busy with two workers, share": Measured(0.86, "text/corpus_2026-11-22.md"),
    "vocabulary, MB per CPU second": Measured(50.8, "text/vocabulary_2026-11-21.md"),
    "encoding, MB per CPU second": Measured(24.7, "text/encode_2026-11-21.md"),
    "encoding, M tokens per CPU second": Measured(8.30, "text/encode_2026-11-21.md"),
    "bytes of a token on disk": Measured(1.47, "text/encode_2026-11-21.md"),
    "share of a CPU's peak, eHealth's step, small": Measured(0.406, "training/pretrain_step_small_cpu_2026-11-21.md"),
}
"""The figures that everything is multiplied up from."""

DOCUMENTS_PER_PARTITION = 4_000_000
"""Default of `deduplicate.documents_per_bucket`."""
PART_BYTES = (16 * 2**20, 256 * 2**20)
"""Default of `ingest.bytes_per_part`, and one for large corpora."""
CORES_PER_NODE = 16


def rate(name: str) -> float:
    return MEASURED[name].value


def corpus_rows() -> list[list[str]]:
    """Hours of processor and of nodes for each size: raw text to encoded examples."""
    rows = []
    for size in SIZES_GB:
        megabytes = 1_000 * size
        slow, fast = (
            megabytes / rate(f"corpus{way}, MB per CPU second") / 3600 for way in (" with the recogniser", "")
        )
        encode = megabytes / rate("encoding, MB per CPU second") / 3600
        node_hours = [
            hours / CORES_PER_NODE / rate("processors busy with two workers, share") for hours in (fast, slow)
        ]
        tokens = megabytes * rate("encoding, M tokens per CPU second") / rate("encoding, MB per CPU second") / 1_000
        rows.append(
            [
                f"{size:,}",
                f"{documents(size) / 1e6:,.1f}",
                f"{tokens:,.1f}",
                f"{fast:,.1f} to {slow:,.1f}",
                f"{encode:,.1f}",
                f"{node_hours[0]:,.1f} to {node_hours[1]:,.1f}",
                f"{tokens * rate('bytes of a token on disk'):,.1f}",
            ]
        )
    return rows


def documents(gigabytes: float) -> float:
    """Return the number of documents in so much text, if they are as long as the measured ones."""
    return gigabytes * 1_000 / 10_041 * rate("documents of 10,041 MB")


@dataclass(frozen=True)
class Store:
    """A shared store, as simple as can be: seconds per request, and bytes per second of each worker and of all."""

    name: str
    request_seconds: float
    worker_bytes: float
    all_bytes: float


STORES = (
    Store("network disk", 0.001, 500e6, 2e9),
    Store("object store", 0.030, 80e6, 5e9),
)
"""Assumed, not measured."""


def exchange_seconds(senders: int, receivers: int, size: float, workers: int, store: Store, seed: int = 0) -> float:
    """Simulate one exchange (`infra/shuffle.py`): every sender writes a file, every receiver opens all of them.

    Units are handed to whichever worker is free. The time of a request varies (log-normal, sigma 0.5), drawn once for
    each unit's requests together.
    """
    drawn = random.Random(seed)
    bandwidth = min(store.worker_bytes, store.all_bytes / workers)

    def finish(units: int, requests: int, volume: float, begin: float) -> float:
        free = [begin] * workers
        heapq.heapify(free)
        for _ in range(units):
            wait = requests * store.request_seconds * drawn.lognormvariate(0, 0.5)
            heapq.heappush(free, heapq.heappop(free) + wait + volume / bandwidth)
        return max(free)

    sent = finish(senders, 2, size / senders, 0.0)
    # Of each file a receiver reads the footer, the schema and its own batch.
    return finish(receivers, 3 * senders, size / receivers, sent)


def exchange_rows() -> list[list[str]]:
    """One exchange from the parts of a corpus to its partitions, 40 bytes a document, on so many workers."""
    rows = []
    for size in (127, 1_000):
        partitions = math.ceil(documents(size) / DOCUMENTS_PER_PARTITION)
        volume = 40 * documents(size)
        parts = [(math.ceil(size * 1e9 / each), f"parts of {each >> 20} MiB") for each in PART_BYTES]
        for senders, who in (*parts, (partitions, "partitions")):
            for workers in (16, 160):
                times = [exchange_seconds(senders, partitions, volume, workers, store) for store in STORES]
                rows.append(
                    [
                        f"{size:,}",
                        f"{senders:,} {who}",
                        f"{partitions:,}",
                        f"{senders * partitions:,}",
                        f"{workers}",
                        *(duration(seconds) for seconds in times),
                    ]
                )
    return rows


@dataclass(frozen=True)
class Run:
    """A training as its traffic sees it."""

    steps: int
    step_seconds: float
    every: int
    checkpoint_bytes: float
    write_bytes: float
    """Bytes per second at which the first worker writes to the store."""
    restart_seconds: float
    hours_between_failures: float
    """Mean, of all nodes together."""


def simulated(run: Run, seed: int = 0) -> dict[str, float]:
    """Simulate a run: steps, checkpoints in the background, nodes that fail, and what is done again.

    A checkpoint that is due while one is still being written waits for it, and training with it. One that is not
    whole when a node fails is lost.
    """
    drawn = random.Random(seed)
    clock = stalled = again = 0.0
    failures = saved = 0
    fails_at = drawn.expovariate(1 / (3600 * run.hours_between_failures))
    step, writing_until, writing = 0, 0.0, 0
    while step < run.steps:
        span = min(run.every - step % run.every, run.steps - step)
        end = clock + span * run.step_seconds
        if fails_at < end:
            if writing_until <= fails_at:
                saved = max(saved, writing)
            failures += 1
            again += (fails_at - clock) + (step - saved) * run.step_seconds
            step, writing = saved, saved
            clock = fails_at + run.restart_seconds
            writing_until = clock
            fails_at = clock + drawn.expovariate(1 / (3600 * run.hours_between_failures))
            continue
        clock, step = end, step + span
        if writing_until > clock:
            stalled += writing_until - clock
            clock = writing_until
        saved = max(saved, writing)
        writing, writing_until = step, clock + run.checkpoint_bytes / run.write_bytes
    ideal = run.steps * run.step_seconds
    return {
        "hours": clock / 3600,
        "stalled": stalled / ideal,
        "again": again / ideal,
        "failures": failures,
        "written": run.steps / run.every * run.checkpoint_bytes,
    }


def ehealth_step() -> tuple[float, float, int]:
    """Return the operations of a step of eHealth's preset with full rows, the bytes of a checkpoint, and its tokens."""
    import tomllib

    from infra.settings import REPOSITORY
    from models import objectives
    from models.objectives.ehealth import cost

    preset = tomllib.loads((REPOSITORY / "flows" / "presets" / "ehealth.toml").read_text(encoding="utf-8"))
    rows, length, vocabulary = preset["training"]["batch_size"], preset["encode"]["max_length"], 20_032
    built: Any = objectives.build("ehealth", {**preset["model"], "vocab_size": vocabulary})
    tokens = 2 * rows * length  # two views of each row
    masked = range(int(tokens * preset["model"]["mask_probability"]))
    layout = SimpleNamespace(total=tokens, lengths=[length] * 2 * rows)
    batch: Any = SimpleNamespace(layout=layout, original=masked)
    parameters = sum(one.numel() for one in built.parameters())
    # In fp32: the weights, and AdamW's two averages.
    return cost.flops(built.config, batch), 12.0 * parameters, rows * length


def checkpoint_rows(checkpoint_bytes: float, step_seconds: float, draws: int = 20) -> list[list[str]]:
    """A million steps, with checkpoints more and less often, and failures more and less often: means over draws."""
    rows = []
    for every in (50, 500, 5_000):
        for between in (6.0, 168.0):
            for write in (50e6, 500e6):
                run = Run(1_000_000, step_seconds, every, checkpoint_bytes, write, 300.0, between)
                found = [simulated(run, seed) for seed in range(draws)]
                mean = {name: sum(one[name] for one in found) / draws for name in found[0]}
                rows.append(
                    [
                        f"{every:,}",
                        f"{between:g}",
                        f"{write / 1e6:g}",
                        f"{mean['hours']:,.1f}",
                        f"{mean['stalled']:.1%}",
                        f"{mean['failures']:.1f}",
                        f"{mean['again']:.2%}",
                        f"{mean['written'] / 1e12:,.1f}",
                    ]
                )
    return rows


def duration(seconds: float) -> str:
    """Return a time span as people read it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


ACCELERATORS = (("8 of 125 TFLOP/s", 8 * 125e12), ("8 of 312 TFLOP/s", 8 * 312e12), ("8 of 990 TFLOP/s", 8 * 990e12))
"""Dense bf16 or fp16 rates as vendors print them; none was there to be measured."""
SHARE = 0.35
"""Share of that rate which is assumed to be reached."""


def measured_rows() -> list[list[str]]:
    """The figures that everything rests on, with their pages."""
    return [
        [name, f"{one.value:,.0f}" if one.value > 1e6 else f"{one.value:g}", f"[page](../{one.page})"]
        for name, one in MEASURED.items()
    ]


def training_rows(flops: float, steps: int) -> list[list[str]]:
    """Seconds of a step and days of a run for each kind of accelerator."""
    return [
        [
            name,
            f"{SHARE * peak / 1e12:,.0f}",
            f"{flops / (SHARE * peak):.2f}",
            f"{steps * flops / (SHARE * peak) / 86_400:,.1f}",
        ]
        for name, peak in ACCELERATORS
    ]


def page(date: str) -> list[str]:
    """Return the lines of the page."""
    flops, checkpoint, tokens = ehealth_step()
    steps = 1_000_000
    step_seconds = flops / (SHARE * ACCELERATORS[1][1])
    stores = "; ".join(
        f"{one.name}: {1000 * one.request_seconds:g} ms a request, {one.worker_bytes / 1e6:g} MB/s a worker, "
        f"{one.all_bytes / 1e9:g} GB/s for all"
        for one in STORES
    )
    corpus = ("GB", "M documents", "G tokens", "CPU hours to segments", "to encode", "node hours", "GB of examples")
    exchange = ("GB", "senders", "receivers", "files opened", "workers", *(one.name for one in STORES))
    checkpoints = ("steps between", "hours between failures", "MB/s to the store", "hours", "stalled", "failures")
    return [
        f"# Beyond what was measured, {date}",
        "",
        "`python -m benchmarks.scale`. The costs of text are arithmetic on measured rates; the others are simulated or",
        "computed for assumed stores, nodes and GPUs, and say so. No cluster and no GPU was there.",
        "",
        "## Measured, and where",
        "",
        *table(("figure", "value", "page"), measured_rows()),
        "",
        "## Raw text to examples",
        "",
        f"Node hours are of {CORES_PER_NODE} cores that are busy for as large a share of the time as two workers were.",
        "Time was linear up to 10 GB; beyond that it is assumed.",
        "",
        *table(corpus, corpus_rows()),
        "",
        "## One exchange of rows (simulated)",
        "",
        f"40 bytes a document, partitions of {DOCUMENTS_PER_PARTITION:,} documents. {stores}.",
        "",
        *table(exchange, exchange_rows()),
        "",
        "## Pre-training (arithmetic, on GPUs that were not there)",
        "",
        f"eHealth's preset with full rows: {flops / 1e12:,.0f} TFLOP a step by the objective's own count,",
        f"{tokens:,} tokens a step, {steps * tokens / 1e9:,.0f} G tokens in {steps:,} steps.",
        f"Assumed is that {SHARE:.0%} of the printed rate is reached.",
        "",
        *table(("GPUs", "TFLOP/s reached", "seconds a step", "days"), training_rows(flops, steps)),
        "",
        "## Checkpoints and failures (simulated)",
        "",
        f"A checkpoint has {checkpoint / 1e9:.2f} GB: weights and AdamW's averages. {step_seconds:.2f} s a step",
        "(the second row above), 5 minutes until a run is going again, means of 20 draws. Stalled: the share of the",
        "time in which training waits for the store; again: the share that is done twice.",
        "",
        *table((*checkpoints, "again", "TB written"), checkpoint_rows(checkpoint, step_seconds)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", required=True, help="of the page")
    parser.add_argument("--output", type=Path, help="file for the page")
    options = parser.parse_args(arguments)
    publish([*page(options.date), ""], options.output)


if __name__ == "__main__":
    main()
