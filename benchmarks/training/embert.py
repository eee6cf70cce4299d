"""EMBERT: what a run has learnt, the cost of its step against BERT's on the same rows, and of the stage of its rows.

    python benchmarks/training/embert.py --home FOLDER [--sizes tiny small] [--threads 1] [--draws 4] [--output FILE.md]

`--sizes` without a name leaves the steps out, `--draws 0` the figures.

FOLDER is the YIWEN_HOME of a finished `pretrain/embert-tiny` (or `embert`): its newest rows, surfaces and pairs are
used. Figures are of all held-out rows, each replaced and masked `--draws` times, with the last checkpoint of the newest
run and with the weights that a run begins with; unseen entities are those that no training row names. Chance is the
best constant answer. For consistency two more rows tell the name from its context. "The name alone" is a logistic
regression on the tokens of replaced names, which sees no context. "Names as frequent" draws wrong names as often as
right ones, so that the name alone is worth nothing.

A step is collate, forward, backward, clipping and AdamW. BERT has sentence order too, and reads the same rows without
their entities; both take turns on every batch. Costs are per token, because replacement changes the length of rows.
Seconds are CPU seconds of the process, of steps over all its threads; MB are 10^6 bytes of UTF-8 of the segments that
the rows were made of.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish, table
from benchmarks.training.finished_run import figures, newest, run_of
from benchmarks.training.timed_steps import Trained
from infra.arrays.ranges import ranges
from infra.artifacts import Artifact, local_folder
from infra.builds import BuildPlace, Unit, run_unit
from models.objectives import build, config_keys
from models.objectives.embert.entity_rows import NOT_REPLACED, EntityRows, replaced
from models.training.allocator import keep_freed_memory
from models.training.reader import ExampleStream
from tasks.knowledge.link import entity_linker
from tasks.pretrain.encode import EncodeParams, encode_part
from tasks.pretrain.entity_examples import examples_part

PRESET = "embert-tiny"
"""The preset whose run `--home` has."""
PRESETS = Path(__file__).resolve().parents[2] / "flows" / "presets"
SMALL = {"num_layers": 12, "hidden_size": 256, "intermediate_size": 1024, "num_heads": 4, "initializer_range": 0.02}
"""Sizes of ELECTRA-small."""


def sizes_of(name: str, vocabulary: int) -> dict[str, Any]:
    """Return the settings of EMBERT at a size."""
    preset = "embert" if name == "base" else "embert-tiny"
    settings = tomllib.loads((PRESETS / f"{preset}.toml").read_text(encoding="utf-8"))["model"]
    return {**settings, **(SMALL if name == "small" else {}), "vocab_size": vocabulary}


def measured_steps(home: Path, name: str, batch: int, steps: int) -> list[str]:
    """Return a row of the page: microseconds per token of both, and their ratio."""
    surfaces, rows = newest(home, "entity_surfaces", PRESET), newest(home, "entity_examples", PRESET)
    settings = sizes_of(name, newest(home, "vocabulary", PRESET).rows())
    embert = build("embert", settings)
    embert.attach("entity_surfaces", local_folder(surfaces))
    shared = config_keys("bert")
    plain = {key: value for key, value in settings.items() if key in shared}
    both = {"bert": Trained(build("bert", plain)), "embert": Trained(embert)}
    stream = ExampleStream(rows.parts("entity_examples"), seed=1, columns=embert.columns)
    for step in range(steps + 2):
        taken = stream.take(step * batch, batch)
        for one in both.values():
            one.take(taken, step)
    medians = {kind: statistics.median(one.step[2:]) * 1e6 for kind, one in both.items()}
    collate = {kind: statistics.median(one.collate[2:]) * 1e6 for kind, one in both.items()}
    ratios = [new / old for new, old in zip(both["embert"].step[2:], both["bert"].step[2:], strict=True)]
    return [
        name,
        *(f"{medians[kind]:.2f} ({collate[kind]:.2f})" for kind in both),
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    ]


def learnt(home: Path, draws: int, batch: int) -> list[list[str]]:
    """Return a row of the page for each term: losses before and after, accuracies and chance levels."""
    spec, state = run_of(home, "embert")
    columns: list[dict[str, float]] = []
    for weights in (None, state):
        torch.manual_seed(spec.config.seed)
        objective = build("embert", spec.model).eval()
        objective.attach("entity_surfaces", local_folder(newest(home, "entity_surfaces", PRESET)))
        if weights is not None:
            objective.load_state_dict(weights)
        parts = newest(home, "entity_examples", PRESET).parts("held_out_entity_examples")
        columns.append(figures(objective, ExampleStream(parts, 1, objective.columns), draws, batch))
    before, after = columns
    rows = []
    for term in objective.terms:
        name = term.name

        def shown(figure: str, name: str = name) -> str:
            value = after.get(f"{name}_{figure}")
            return "–" if value is None else f"{value:,.0f}" if figure == "unseen_count" else f"{value:.3f}"

        losses = [f"{one[f'{name}_loss']:.3f}" for one in columns]
        kinds = ("accuracy", "chance", "unseen_accuracy", "unseen_chance", "unseen_count")
        rows.append([term.title, *losses, *map(shown, kinds)])
    rows.append(["whole loss", f"{before['loss']:.3f}", f"{after['loss']:.3f}", *["–"] * 5])
    alone = names_alone(objective, newest(home, "entity_examples", PRESET), draws, batch)
    rows.append(["consistency, by the name alone", "–", "–", *alone])
    frequent = build("embert", {**spec.model, "wrong_entity": "as_frequent"}).eval()
    frequent.attach("entity_surfaces", local_folder(newest(home, "entity_surfaces", PRESET)))
    frequent.load_state_dict(state)
    found = figures(frequent, ExampleStream(parts, 1, objective.columns), draws, batch)
    kinds = ("loss", "accuracy", "chance", "unseen_accuracy", "unseen_chance")
    shown_figures = [f"{found[f'consistency_{kind}']:.3f}" for kind in kinds]
    rows.append(["consistency, names as frequent", "–", *shown_figures, f"{found['consistency_unseen_count']:,.0f}"])
    return rows


def names_alone(objective: Any, rows: Artifact, draws: int, batch: int) -> list[str]:
    """Return accuracies and chance levels of a logistic regression on the tokens of replaced names alone."""
    from sklearn.linear_model import LogisticRegression

    surfaces, settings = objective.surfaces, objective.config
    chances = {
        "probability": settings.replaced_share,
        "longest": settings.max_positions,
        "as_frequent": settings.wrong_entity == "as_frequent",
    }

    def names_of(table: str, read: int, seeds: range) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
        stream = ExampleStream(rows.parts(table), 1, objective.columns)
        found, labels = [], []
        for seed in seeds:
            for first in range(0, min(read, stream.rows) - batch + 1, batch):
                laid = EntityRows.of(stream.take(first, batch), np.arange(batch), surfaces)
                made = replaced(laid, surfaces, seed=seed, step=first, **chances)
                which = made.labels != NOT_REPLACED
                found.append(made.entities[which, 3])
                labels.append(made.labels[which])
        names = np.concatenate(found)
        begins, ends = surfaces.borders[names], surfaces.borders[names + 1]
        tokens = np.asarray(surfaces.ids)[ranges(begins, ends)].astype(np.int64)
        borders = np.concatenate([[0], np.cumsum(ends - begins)])
        bags = csr_matrix((np.ones(len(tokens)), tokens, borders), shape=(len(names), settings.vocab_size))
        return bags, np.concatenate(labels), np.asarray(surfaces.unseen)[names]

    bags, labels, _ = names_of("entity_examples", 8_192, range(1))
    known = LogisticRegression(C=0.3, max_iter=1_000).fit(bags, labels)
    bags, labels, unseen = names_of("held_out_entity_examples", 2**40, range(draws))
    right = known.predict(bags) == labels
    values = []
    for chosen in (np.ones_like(unseen), unseen):
        share = labels[chosen].mean()
        values += [f"{right[chosen].mean():.3f}", f"{max(share, 1 - share):.3f}"]
    return [*values, f"{unseen.sum():,}"]


def measured_encoding(home: Path) -> list[list[str]]:
    """Return the CPU seconds of building the linker, and the speed of encoding text with it."""
    segments, entities, vocabulary = (newest(home, stage, PRESET) for stage in ("segment", "entities", "vocabulary"))
    began = time.process_time()
    linker = entity_linker(entities, {})
    built = time.process_time() - began
    params = EncodeParams(**newest(home, "encode", PRESET).manifest.params)
    tokenizer = vocabulary.read_file("tokenizer.json").decode()
    speeds = []
    with tempfile.TemporaryDirectory(prefix="yiwen-embert-") as folder:
        place = BuildPlace(folder, "encode", "0" * 32)
        Path(folder, place.partial).mkdir(parents=True)
        for index, part in enumerate(segments.parts("segments")):
            megabytes = int(part.read(columns=["text"])["text"].nbytes) / 1e6
            began = time.process_time()
            run_unit(place, encode_part, Unit(index, (part, params, params.held_out_share, tokenizer, entities)))
            speeds.append(megabytes / (time.process_time() - began))
    return [
        ["encode with linking, MB per CPU second, median of parts", f"{statistics.median(speeds):.1f}"],
        [f"linker of {linker.num_surfaces:,} names, CPU seconds, once per worker", f"{built:.1f}"],
    ]


def measured_stage(home: Path) -> list[list[str]]:
    """Return the speed of the stage's part function, and the recorded cost of the stages before it."""
    made, pairs = newest(home, "entity_examples", PRESET), newest(home, "pairs", PRESET)
    surfaces, segments = newest(home, "entity_surfaces", PRESET), newest(home, "segment", PRESET)
    megabytes = sum(int(part.read(columns=["text"])["text"].nbytes) for part in segments.parts("segments")) / 1e6
    parts = [part for name in ("pairs", "held_out_pairs") for part in pairs.parts(name)]
    seconds = []
    with tempfile.TemporaryDirectory(prefix="yiwen-embert-") as folder:
        for number in range(3):
            place = BuildPlace(folder, "entity_examples", f"{number:032x}")
            Path(folder, place.partial).mkdir(parents=True)
            began = time.process_time()
            for index, part in enumerate(parts):
                run_unit(place, examples_part, Unit(index, (part, surfaces)))
            seconds.append(time.process_time() - began)
    counters = made.manifest.counters
    alone = statistics.median(seconds)
    return [
        ["text, MB", f"{megabytes:.1f}"],
        ["entity_examples, MB of text per CPU second", f"{megabytes / alone:.1f}"],
        *measured_encoding(home),
        ["pairs, MB per CPU second (as recorded)", f"{megabytes / pairs.manifest.cpu_seconds:.1f}"],
        ["rows", f"{counters['rows']:,}"],
        ["entities named", f"{counters['entities']:,}"],
        ["of them long; replaceable", f"{counters['long_entities']:,}; {counters['replaceable']:,}"],
        [
            "left out: other spellings; beside letters",
            f"{counters.get('other_spellings', 0):,}; {counters.get('beside_letters', 0):,}",
        ],
    ]


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--sizes", nargs="*", choices=("tiny", "small", "base"), default=["tiny", "small"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draws", type=int, default=4, help="times that the held-out rows are read; 0: no figures")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    stage_rows = measured_stage(options.home)
    steps = [measured_steps(options.home, name, options.batch, options.steps) for name in options.sizes]
    known = learnt(options.home, options.draws, options.batch) if options.draws else []
    head = ["size", "BERT, CPU µs per token (of it collate)", "EMBERT", "ratio (median of steps)", "range"]
    page = [
        f"# EMBERT, {date.today()}",
        "",
        f"{cpu_name()}; torch {torch.__version__}, {options.threads} thread(s); batches of {options.batch} pairs.",
        "",
        "## Held-out figures",
        "",
        *table(["term", "loss at first", "loss", "accuracy", "chance", "unseen", "chance", "unseen, number"], known),
        "",
        "## Steps on the same rows",
        "",
        *table(head, steps),
        "",
        "## The stage `entity_examples`",
        "",
        *table(["figure", "value"], stage_rows),
    ]
    publish([*page, ""], options.output)


if __name__ == "__main__":
    main()
