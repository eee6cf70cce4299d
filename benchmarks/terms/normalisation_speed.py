"""Diagnoses that a normaliser without a ranker answers in a CPU second, and how long one takes alone.

    python -m benchmarks.terms.normalisation_speed FOLDER [--diagnoses 10000] [--output FILE.md]

FOLDER is what normalise/index printed. The diagnoses are all different: the everyday ones of the tuning half, and
Chinese names of the index, drawn at random; a fifth of them are two of these joined by 、. The lines of fields are
those of the tuning halves. Real columns repeat themselves, which makes them faster. Seconds are CPU seconds of the
process with one thread, the median of `ROUNDS` rounds."""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import time
from datetime import date
from pathlib import Path

import polars as pl
import torch

from benchmarks.pages import cpu_name, publish, table
from tasks.normalise.normaliser import Normaliser, index_folder
from tasks.retrieve.embedded import NAMES_FILE

LABELLED = Path(__file__).parents[2] / "tests" / "support" / "terms"
FIELDS = ("fields_tuning", "fields_more_tuning", "fields_new_tuning")
ROUNDS = 3
ALONE = 300
"""Diagnoses that are asked one at a time."""


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of an index")
    parser.add_argument("--diagnoses", type=int, default=10_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = diagnoses(options.folder, options.diagnoses)
    lines = list(dict.fromkeys(query for half in FIELDS for query in labelled(half)))
    Normaliser(options.folder).normalise(texts[:200])  # compiles
    together = [_seconds(_fresh(options.folder), texts) for _ in range(ROUNDS)]
    of_fields = [_seconds(_fresh(options.folder), lines) for _ in range(ROUNDS)]
    normaliser = _fresh(options.folder)
    alone = sorted(_seconds(normaliser, [text]) for text in random.Random(1).sample(texts, min(ALONE, len(texts))))
    seconds, field_seconds = statistics.median(together), statistics.median(of_fields)
    rows = [
        [f"{len(texts):,} together", f"{seconds:.1f} CPU s", f"{len(texts) / seconds:,.0f} a CPU s"],
        [
            f"{len(lines):,} lines of fields together",
            f"{field_seconds:.1f} CPU s",
            f"{len(lines) / field_seconds:,.0f} a CPU s",
        ],
        ["one at a time, median", f"{1000 * statistics.median(alone):.1f} CPU ms", ""],
        ["one at a time, 99 of 100", f"{1000 * alone[len(alone) * 99 // 100]:.1f} CPU ms", ""],
    ]
    page = [
        "# Speed of the normaliser without a ranker",
        "",
        f"{date.today()}, {cpu_name()}, one thread; 100 candidates a diagnosis, median of {ROUNDS} rounds "
        f"({', '.join(f'{one:.1f}' for one in together)} s). `python -m benchmarks.terms.normalisation_speed FOLDER`",
        "",
        *table(["diagnoses", "time", "speed"], rows),
        "",
    ]
    publish(page, options.output)


def diagnoses(folder: Path, count: int) -> list[str]:
    """Return different diagnoses, the same every time."""
    everyday = labelled("tuning")
    names = pl.read_parquet(index_folder(folder) / NAMES_FILE)["name"].unique(maintain_order=True)
    chinese = names.filter(names.str.contains(r"^\p{Han}{2,20}$")).to_list()
    draw = random.Random(0)
    single = dict.fromkeys([*everyday, *draw.sample(chinese, min(len(chinese), count))])
    listed = list(single)
    pairs = ["、".join(draw.sample(listed, 2)) for _ in range(count // 5)]
    texts = list(dict.fromkeys([*pairs, *single]))[:count]
    draw.shuffle(texts)
    return texts


def labelled(half: str) -> list[str]:
    """Return the diagnoses of a half of the labelled lines."""
    lines = (LABELLED / f"diagnoses_{half}.csv").read_text(encoding="utf-8").splitlines()
    return [row["query"] for row in csv.DictReader(lines)]


def _fresh(folder: Path) -> Normaliser:
    """Return a normaliser that remembers none of the answers, warmed up by one text."""
    normaliser = Normaliser(folder)
    normaliser.normalise(["脑卒中后抑郁状态"])
    return normaliser


def _seconds(normaliser: Normaliser, texts: list[str]) -> float:
    started = time.process_time()
    for _ in normaliser.stream(texts):
        pass
    return time.process_time() - started


if __name__ == "__main__":
    main()
