"""SMedBERT: what a run has learnt, its step against BERT's with sentence order, and the memory of its knowledge.

    python benchmarks/training/smedbert.py [--sizes tiny small base] [--home FOLDER] [--workers 2] [--output FILE.md]

Steps are on random rows with 40 mentions of 10 neighbours each, of 512 tokens (the tiny preset's 128 tokens have 10),
over a random graph of SMedBERT's size. A step is collate, forward, backward, clipping and AdamW; both models read the
same rows and take turns on every batch. Seconds are CPU seconds of the process.

Memory: `--workers` processes that each hold a model of the largest size asked for, with AdamW, and have taken steps on
rows of their own, over one folder of arrays. `Rss` is what a process has mapped, `Pss` its share of that (the kernel's
counts in /proc/self/smaps). `--workers 0` leaves it out.

With `--home`, the YIWEN_HOME of a finished `pretrain/smedbert-tiny`, the page has figures of all held-out pairs, each
masked `--draws` times, with the weights that the newest run began with and with those of its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish, table
from benchmarks.training.finished_run import figures, newest, run_of
from benchmarks.training.timed_steps import Trained
from infra.artifacts import local_folder
from models.knowledge import DESCRIPTION, FORMAT, KINDS
from models.objectives import build
from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.smedbert.config import SMedBertConfig
from models.training.allocator import keep_freed_memory
from models.training.reader import ExampleStream
from tests.support.graphs.mapped_share import counts

PRESET = "smedbert-tiny"
"""The preset whose run `--home` has."""
PRESETS = Path(__file__).resolve().parents[2] / "flows" / "presets"
SMALL = {"num_layers": 12, "hidden_size": 256, "intermediate_size": 1024, "num_heads": 4}
"""Sizes of ELECTRA-small."""
VOCABULARY = 21_128
OWN_SETTINGS = {one.name for one in fields(SMedBertConfig)} - {one.name for one in fields(BertObjectiveConfig)}


def sizes_of(name: str) -> dict[str, Any]:
    """Return the settings of SMedBERT at a size."""
    preset = PRESETS / ("smedbert-tiny.toml" if name == "tiny" else "smedbert.toml")
    settings = tomllib.loads(preset.read_text(encoding="utf-8"))["model"]
    return {**settings, **(SMALL if name == "small" else {}), "entity_size": 200, "vocab_size": VOCABULARY}


def random_graph(folder: Path, entities: int, neighbours: int, relations: int, width: int) -> Path:
    """Write the arrays of a graph in which every entity has so many neighbours."""
    drawn = np.random.default_rng(0)
    pairs = entities * neighbours
    ids = [b"%032x" % row for row in range(entities)]
    vectors = drawn.normal(size=(entities, width)).astype(np.float32)
    projections = drawn.normal(scale=width**-0.5, size=(relations, width, width)).astype(np.float32)
    arrays = {
        "entity_id_bytes": np.frombuffer(b"".join(ids), dtype=np.uint8),
        "entity_id_offsets": np.arange(entities + 1) * 32,
        "types": drawn.integers(0, 26, entities),
        "frequencies": drawn.zipf(1.5, entities).clip(max=100_000),
        "neighbour_offsets": np.arange(entities + 1) * neighbours,
        "neighbours": drawn.integers(0, entities, pairs),
        "scores": drawn.random(pairs),
        "triple_offsets": np.arange(pairs + 1),
        "relations": drawn.integers(0, relations, pairs),
        "directions": drawn.choice([-1, 1], pairs),
        "entity_vectors": vectors,
        "has_vector": np.ones(entities, dtype=bool),
        "relation_vectors": drawn.normal(size=(relations, width)),
        "projections": projections,
        "projected_norms": np.stack([np.linalg.norm(vectors @ one, axis=1) for one in projections]),
    }
    for name, (kind, _) in KINDS.items():
        np.save(folder / f"{name}.npy", arrays[name].astype(kind))
    described = {
        "format": FORMAT,
        "graph": {"stage": "fuse_graphs", "fingerprint": "0" * 32},
        "types": [f"type {number}" for number in range(26)],
        "relations": [f"relation {number}" for number in range(relations)],
    }
    (folder / DESCRIPTION).write_text(json.dumps(described), encoding="utf-8")
    return folder


def random_pairs(count: int, length: int, mentions: int, entities: int, seed: int) -> list[dict[str, Any]]:
    """Return rows with so many mentions of three tokens each, evenly apart."""
    drawn = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        ids = np.concatenate([[2], drawn.integers(5, VOCABULARY, length - 2), [3]])
        second = length // 2
        ids[second - 1] = 3
        starts = np.setdiff1d(np.arange(1, length - 1, 2), [second - 1])
        firsts = np.linspace(1, length - 5, mentions).astype(np.int64)
        firsts = firsts + np.where((firsts < second) & (firsts + 3 >= second), 4, 0)
        named = np.stack([firsts, firsts + 3, drawn.integers(0, entities, mentions), np.zeros_like(firsts)], 1)
        rows.append({"input_ids": ids, "word_starts": starts, "second": second, "mentions": named})
    return rows


def smedbert(name: str, folder: Path) -> Any:
    """Return the objective at a size, over a folder of arrays."""
    objective = build("smedbert", sizes_of(name))
    objective.attach("knowledge", folder)
    return objective


def rows_of(name: str, batch: int, entities: int, seed: int) -> list[dict[str, Any]]:
    """Return a batch for a size."""
    length, mentions = (128, 10) if name == "tiny" else (512, 40)
    return random_pairs(batch, length, mentions, entities, seed)


def measured_steps(name: str, folder: Path, batch: int, steps: int, entities: int) -> list[str]:
    """Return a row of the page: tokens per CPU second of both, and their ratio."""
    settings = sizes_of(name)
    plain = {key: value for key, value in settings.items() if key not in OWN_SETTINGS}
    both = {"bert": Trained(build("bert", plain)), "smedbert": Trained(smedbert(name, folder))}
    for step in range(steps + 2):
        rows = rows_of(name, batch, entities, step)
        for one in both.values():
            one.take(rows, step)
    speeds = {kind: 1 / statistics.median(one.step[2:]) for kind, one in both.items()}
    shares = {kind: sum(one.collate[2:]) / sum(one.step[2:]) for kind, one in both.items()}
    ratios = [old / new for new, old in zip(both["smedbert"].step[2:], both["bert"].step[2:], strict=True)]
    return [
        name,
        *(f"{speeds[kind]:,.0f} ({100 * shares[kind]:.1f} %)" for kind in both),
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    ]


def hold(name: str, folder: Path, batch: int, entities: int, seed: int) -> None:
    """Be a worker: take steps, say so, wait for a line, print the counts, wait again."""
    torch.set_num_threads(1)
    worker = Trained(smedbert(name, folder))
    for step in range(2):
        worker.take(rows_of(name, batch, entities, 100 * seed + step), step)
    found = worker.objective.known.knowledge
    for array in KINDS:
        getattr(found, array).max()  # all of it, as a long run reads it
    print("held", flush=True)
    sys.stdin.readline()
    shared = {"rss_kib": 0, "pss_kib": 0, "private_kib": 0}
    for array in KINDS:
        for key, value in counts(folder.resolve() / f"{array}.npy").items():
            shared[key] += value
    whole = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    shared |= {
        f"whole_{key}": int(line.split()[1]) for key in ("Rss", "Pss") for line in whole if line.startswith(key + ":")
    }
    print(json.dumps(shared), flush=True)
    sys.stdin.readline()


def measured_memory(name: str, folder: Path, workers: int, batch: int, entities: int) -> list[list[str]]:
    """Return rows of the page: what each worker holds of the arrays, and in all."""
    given = [sys.executable, __file__, "--hold", folder, "--sizes", name, "--batch", batch, "--entities", entities]
    started = [
        subprocess.Popen(
            [*map(str, given), "--seed", str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(workers)
    ]
    try:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
        found = []
        for process in started:
            assert process.stdin is not None and process.stdout is not None
            print("count", file=process.stdin, flush=True)
            found.append(json.loads(process.stdout.readline()))
    finally:
        for process in started:
            process.kill()
            process.wait()
    keys = ("rss_kib", "pss_kib", "private_kib", "whole_Rss", "whole_Pss")
    rows = [[str(number), *(f"{one[key] / 2**10:,.0f}" for key in keys)] for number, one in enumerate(found, start=1)]
    sums = [f"{sum(one[key] for one in found) / 2**10:,.0f}" if "Pss" in key or "pss" in key else "–" for key in keys]
    return [*rows, ["together", *sums]]


def learnt(home: Path, draws: int) -> list[list[str]]:
    """Return a row of the page for each held-out figure, with the weights at first and at last."""
    spec, last = run_of(home, "smedbert")
    columns = []
    for weights in (None, last):
        torch.manual_seed(spec.config.seed)
        objective = build(spec.objective, spec.model)
        objective.attach("knowledge", local_folder(newest(home, "knowledge_arrays", PRESET)))
        if weights is not None:
            objective.load_state_dict(weights)
        stream = ExampleStream(newest(home, "pairs", PRESET).parts("held_out_pairs"), 1, objective.columns)
        columns.append(figures(objective.eval(), stream, draws, 16))
    return [[name, *(f"{one[name]:.3f}" for one in columns)] for name in columns[0]]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=("tiny", "small", "base"), default=["tiny", "small", "base"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--entities", type=int, default=274_163)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--relations", type=int, default=56)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--hold", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    if options.hold is not None:
        return hold(options.sizes[0], options.hold, options.batch, options.entities, options.seed)
    page = [
        f"# SMedBERT, {date.today()}",
        "",
        f"{cpu_name()}; torch {torch.__version__}, {options.threads} thread(s); batches of {options.batch} rows; "
        f"random graph of {options.entities:,} entities, {options.neighbours} neighbours each, {options.relations} "
        "relations.",
        "",
    ]
    if options.home is not None:
        page += [
            "## Held-out figures",
            "",
            *table(["figure", "at first", "at last"], learnt(options.home, options.draws)),
            "",
        ]
    with tempfile.TemporaryDirectory(prefix="yiwen-smedbert-") as temporary:
        folder = random_graph(Path(temporary), options.entities, options.neighbours, options.relations, 200)
        steps = [measured_steps(name, folder, options.batch, options.steps, options.entities) for name in options.sizes]
        head = ["size", "BERT, tokens / CPU s (of it collate)", "SMedBERT", "ratio (median of steps)", "range"]
        page += ["## Steps on the same rows", "", *table(head, steps), ""]
        if options.workers:
            rows = measured_memory(options.sizes[-1], folder, options.workers, options.batch, options.entities)
            size = sum(file.stat().st_size for file in folder.glob("*.npy")) / 2**20
            head = ["worker", "arrays, Rss MiB", "arrays, Pss", "arrays, private", "process, Rss", "process, Pss"]
            page += [f"## Memory: {options.sizes[-1]}, arrays of {size:,.0f} MiB", "", *table(head, rows), ""]
    publish(page, options.output)


if __name__ == "__main__":
    main()
