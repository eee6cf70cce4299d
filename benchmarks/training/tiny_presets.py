"""What the tiny presets learn in their few minutes: held-out figures of several seeds, beside chance.

    YIWEN_HOME=artifacts python benchmarks/training/tiny_presets.py --seeds 42 43 44 --record runs.jsonl
        --output page.md

Reads the newest examples that `pretrain/ehealth-tiny` made in YIWEN_HOME, the text of `make demo`. Each preset is
trained with each seed by the loop of the flow, on one thread, and judged on the same held-out rows. Seconds are CPU
seconds of the training process, evaluations included, which other work on the machine changes little. Runs that
`--record` has already are not repeated.

The frequency baseline of masked language modelling answers every masked token with the token that the training
examples contain most often.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from flows.recipes.pretraining import Preset, load_preset
from infra.artifacts import Artifact, ArtifactStore
from infra.settings import Settings
from models import objectives
from models.tokenizer.special_ids import NUM_SPECIAL
from models.training.allocator import keep_freed_memory
from models.training.global_batch import read_global_batch
from models.training.loop import train, training_config
from models.training.reader import ExampleStream

PRESETS = ("ehealth-tiny", "electra-tiny", "bert-tiny")
FIGURES = {
    "mlm_accuracy": "MLM accuracy",
    "mlm_loss": "MLM loss",
    "rtd_balanced_accuracy": "RTD balanced accuracy",
    "rtd_precision": "RTD precision",
    "rtd_recall": "RTD recall",
    "mts_accuracy": "MTS accuracy",
    "csp_accuracy": "CSP accuracy",
    "replaced_rate": "share of tokens replaced",
}
"""Held-out figures and what the page calls them; an objective has some of them."""
CHANCE = {"rtd_balanced_accuracy": "rtd_chance", "mts_accuracy": "mts_chance", "csp_accuracy": "csp_chance"}


def streams(objective: Any, examples: Artifact, seed: int) -> tuple[ExampleStream, ExampleStream]:
    """Return the training examples and the held-out ones, in the order of a seed."""
    parts = (examples.parts(name) for name in ("examples", "held_out"))
    text, held_out = (ExampleStream(part, seed, objective.columns) for part in parts)
    return text, held_out


def most_frequent(examples: Artifact, vocabulary: int) -> int:
    """Return the ordinary token that the training examples contain most often."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for part in examples.parts("examples"):
        ids = part.read(columns=["input_ids"]).column("input_ids").combine_chunks().flatten().to_numpy()
        counts += np.bincount(ids, minlength=vocabulary)
    return int(counts[NUM_SPECIAL:].argmax()) + NUM_SPECIAL


def baseline(objective: Any, held_out: ExampleStream, config: Any, token: int) -> float:
    """Return the share of the masked held-out tokens that are `token`, with the masks of an evaluation."""
    right = total = 0
    for number in range(config.held_out_batches):
        rows = read_global_batch(held_out, number * config.batch_size, size=config.batch_size).rows
        batch = objective.collate(rows, seed=config.seed + 1, step=number, row_indices=range(len(rows)))
        right += int((batch.original == token).sum())
        total += len(batch.original)
    return right / total


def run(preset: Preset, examples: Artifact, vocabulary: int, seed: int) -> dict[str, Any]:
    """Train a preset from a seed; return its held-out figures, sizes and CPU seconds."""
    config = training_config({**preset.train.training, "seed": seed})
    torch.manual_seed(seed)
    objective = objectives.build(preset.objective, {**preset.model, "vocab_size": vocabulary})
    text, held_out = streams(objective, examples, seed)
    figures: dict[str, float] = {}

    def report(step: int, split: str, values: Mapping[str, float]) -> None:
        if split == "held_out":
            figures.update(values)
            shown = ", ".join(f"{name} {values[name]:.3f}" for name in FIGURES if name in values)
            print(f"# seed {seed}, step {step}: {shown}", file=sys.stderr, flush=True)

    began = time.process_time()
    train(objective, text, held_out, config, report=report)
    seconds = time.process_time() - began
    frequency = baseline(objective, held_out, config, most_frequent(examples, vocabulary))
    sizes = {"steps": config.steps, "rows": config.batch_size, "cpu_seconds": seconds, "mlm_frequency": frequency}
    sizes["parameters"] = sum(parameter.numel() for parameter in objective.parameters())
    return {"seed": seed} | sizes | figures


def page(name: str, preset: Preset, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the section of a preset: one row per figure, one column per seed."""
    rows = []
    for figure, title in FIGURES.items():
        if figure in runs[0]:
            values = [run[figure] for run in runs]
            key = "mlm_frequency" if figure == "mlm_accuracy" else CHANCE.get(figure)
            chance = "–" if key is None else f"{statistics.mean(run[key] for run in runs):.3f}"
            middle = f"{statistics.mean(values):.3f}"
            rows.append([title, *(f"{value:.3f}" for value in values), middle, chance])
    seconds = [run["cpu_seconds"] for run in runs]
    rows.append(["CPU seconds", *(f"{value:.0f}" for value in seconds), f"{statistics.mean(seconds):.0f}", "–"])
    one = runs[0]
    return [
        f"## {name}",
        "",
        f"{preset.description}. {one['parameters']:,} parameters, {one['steps']:,} steps of {one['rows']} rows.",
        "",
        *table(["held out", *(f"seed {run['seed']}" for run in runs), "mean", "chance"], rows),
        "",
    ]


def main() -> None:
    """Train what the record lacks, then print and save the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=PRESETS, help="presets to train")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42])
    parser.add_argument("--record", type=Path, required=True, help="JSON lines of finished runs; added to")
    parser.add_argument("--output", type=Path, help="also write the page to this file")
    args = parser.parse_args()
    store = ArtifactStore(Settings.from_environment().home)
    examples, vocabulary = store.latest("encode"), store.latest("vocabulary")
    if examples is None or vocabulary is None:
        raise SystemExit("no examples in YIWEN_HOME: run `python -m flows run pretrain/ehealth-tiny` first")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    keep_freed_memory()
    known = [json.loads(line) for line in args.record.read_text().splitlines()] if args.record.exists() else []
    lines = [
        "# What the tiny presets learn on the demo's text",
        "",
        f"{datetime.date.today()}; {cpu_name()}, one thread, other work on the machine; torch {torch.__version__}, "
        f"Python {platform.python_version()}. Text: templated articles of CMeKG, {examples.rows('examples'):,} rows of "
        f"at most 128 tokens, {examples.rows('held_out'):,} held out. Chance of MLM: always the most frequent token.",
        "",
    ]
    for name in args.preset:
        preset = load_preset(name)
        settings = {"preset": name, "model": preset.model, "training": preset.train.training}
        found = []
        for seed in args.seeds:
            done = [one for one in known if one["seed"] == seed and one["settings"] == settings]
            if not done:
                done = [run(preset, examples, vocabulary.rows(), seed) | {"settings": settings}]
                with args.record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[0]) + "\n")
            found.append(done[0])
        lines += page(name, preset, found)
    publish(lines, args.output)


if __name__ == "__main__":
    main()
