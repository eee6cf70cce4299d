"""What ELECTRA+EM+PAP knows of held-out products on the way, beside what counting the same pairs would know.

    YIWEN_HOME=artifacts python benchmarks/training/products.py --steps 6000 --record runs.jsonl --output page.md

Reads the newest examples, vocabulary and products that `pretrain/electra-em-pap-tiny` made in YIWEN_HOME. The preset is
trained by the loop of the flow, on one thread. Before the first step and at every evaluation the values of held-out
titles are ranked as by the stage `rank_values`. The table that counts is made of as many random pairs of title and
attribute as the model has read by then, with as many values of each. Runs that `--record` has already are not repeated.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from flows.recipes.pretraining import Preset, load_preset
from infra.artifacts import Artifact, ArtifactStore, local_folder
from infra.settings import Settings
from models import objectives
from models.objectives.electra_em_pap.config import PAP
from models.tokenizer.corpus import corpus_tokenizer
from models.training.allocator import keep_freed_memory
from models.training.loop import evaluate, train, training_config
from models.training.reader import ExampleStream
from models.training.worker import Worker
from tasks.evaluate.products.rank_values import asked_records, counted_values, questions, ranked_rows, summarise
from tasks.evaluate.products.value_params import RankValuesParams
from tasks.evaluate.products.value_ranking import KINDS, Kind, frequency, known_values, ranks
from tasks.evaluate.text_encoder import TextEncoder
from tasks.pretrain.product_records import records_of

STAGES = {"examples": "encode", "products": "products", "vocabulary": "vocabulary"}
LOSSES = {"mlm_loss": "MLM loss", "rtd_loss": "RTD loss", "pap_loss": "PAP loss", "pap_accuracy": "PAP acc."}


class Ranking:
    """The same questions about held-out titles, asked of a model and of a table of frequencies."""

    def __init__(self, records: Artifact, tokenizer: Any, pairs: int) -> None:
        self._tokenizer = tokenizer
        params = RankValuesParams(pairs=pairs)
        self._asked = questions(asked_records(records, params), known_values(records_of(records)), params)
        self._trained = records_of(records, held_out=False)

    def figures(self, objective: Any, seen: int, most_values: int) -> dict[str, float]:
        """Return MRR of the model, of frequencies in all training records and in `seen` of them, and of chance."""
        training = objective.training
        norm = objective.config.distance_norm
        encoder = TextEncoder(objective.discriminator, self._tokenizer, objective.pap_head, norm)
        groups = summarise(ranked_rows(self._asked, self._trained, encoder))["groups"]
        objective.train(training)
        names = {"model": "mrr", "frequency": "popularity_mrr", "chance": "mrr_chance"}
        found = {f"{name}_{kind}": groups[f"{kind}: all"][key] for kind in KINDS for name, key in names.items()}
        return found | {f"seen_frequency_{kind}": self._counting(seen, most_values, kind) for kind in KINDS}

    def _counting(self, count: int, most_values: int, kind: Kind) -> float:
        """Return the MRR of frequencies in `count` training records."""
        counted = counted_values(self._some(count, most_values))
        found = []
        for row, one, wrong in self._asked:
            if one == kind:
                seen = counted.get(row["attribute"], Counter())
                found += (1 / ranks(frequency(row["values"], seen), frequency(wrong, seen))).tolist()
        return float(np.mean(found))

    def _some(self, count: int, most_values: int) -> pl.DataFrame:
        """Return `count` random records, each with at most `most_values` of its values."""
        draw = np.random.default_rng(0)
        some = self._trained[draw.permutation(len(self._trained))[:count].tolist()]
        lists = [draw.permutation(values)[:most_values].tolist() for values in some["values"].to_list()]
        return some.with_columns(pl.Series("values", lists, dtype=pl.List(pl.String)))


def run(preset: Preset, inputs: Mapping[str, Artifact], ranking: Ranking, seed: int) -> list[dict[str, float]]:
    """Train a preset from a seed; return its held-out figures before the first step and at every evaluation."""
    config = training_config({**preset.train.training, "seed": seed})
    torch.manual_seed(seed)
    objective = objectives.build(preset.objective, {**preset.model, "vocab_size": inputs["vocabulary"].rows()})
    objective.attach("products", local_folder(inputs["products"]))
    streams, held_out = (
        {
            task.name: ExampleStream(source.parts(getattr(task, name)), seed, task.columns)
            for task in objective.tasks
            for source in (inputs["products" if task.name == PAP else "examples"],)
        }
        for name in ("table", "held_out")
    )
    found: list[dict[str, float]] = []
    began = time.process_time()

    def look(step: int, figures: Mapping[str, float]) -> None:
        done = sum(objective.task(number, seed) == PAP for number in range(step))
        seen = done * (config.batch_of(PAP).batch_size or 0)
        ranks = ranking.figures(objective, seen, objective.config.most_values)
        counts = {"step": step, "pap_steps": done, "pairs": seen, "cpu_seconds": time.process_time() - began}
        found.append(counts | {name: figures[name] for name in LOSSES} | ranks)
        print(f"# {json.dumps(found[-1])}", file=sys.stderr, flush=True)

    def report(step: int, split: str, figures: Mapping[str, float]) -> None:
        if split == "held_out":
            look(step, figures)

    look(0, evaluate(objective, held_out, config, Worker()))
    train(objective, streams, held_out, config, report=report)
    return found


def page(looks: list[dict[str, float]]) -> list[str]:
    """Return the table of a run: a row for each evaluation."""
    head = ["step", "PAP steps", "pairs read", *LOSSES.values(), "CPU s"]
    rows = [
        [f"{one['step']:,}", f"{one['pap_steps']:,}", f"{one['pairs']:,}"]
        + [f"{one[name]:.3f}" for name in LOSSES]
        + [f"{one['cpu_seconds']:,.0f}"]
        for one in looks
    ]
    ranked = ["pairs read", "model", "counting as many pairs", "counting all", "chance"]
    lines = [*table(head, rows), ""]
    for kind, drawn in (("values", "each distinct value equally"), ("records", "by the titles that have them")):
        names = (f"model_{kind}", f"seen_frequency_{kind}", f"frequency_{kind}", f"chance_{kind}")
        # Before the first pair a table of counts ranks nothing.
        cells = [[f"{one['pairs']:,}", *(f"{one[name]:.3f}" for name in names)] for one in looks if one["pairs"]]
        lines += [f"MRR of values, wrong ones drawn {drawn}:", "", *table(ranked, cells), ""]
    return lines


def main() -> None:
    """Train what the record lacks, then print and save the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="electra-em-pap-tiny")
    parser.add_argument("--steps", type=int, help="steps in place of the preset's")
    parser.add_argument("--looks", type=int, default=6, help="evaluations after the first")
    parser.add_argument("--pairs", type=int, default=400, help="pairs of held-out titles whose values are ranked")
    parser.add_argument("--override", nargs="*", default=[], metavar="KEY=VALUE", help="preset keys, as JSON values")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42])
    parser.add_argument("--record", type=Path, required=True, help="JSON lines of finished runs; added to")
    parser.add_argument("--output", type=Path, help="also write the page to this file")
    args = parser.parse_args()
    store = ArtifactStore(Settings.from_environment().home)
    newest = {name: store.latest(stage) for name, stage in STAGES.items()}
    inputs = {name: found for name, found in newest.items() if found is not None}
    if len(inputs) < len(newest):
        raise SystemExit("no products in YIWEN_HOME: run `python -m flows run pretrain/electra-em-pap-tiny` first")
    given = inputs["products"].manifest.inputs["records"]
    records = store.get(given.stage, given.fingerprint)
    assert records is not None, "an artifact's inputs are kept"
    overrides = {key: json.loads(value) for key, _, value in (one.partition("=") for one in args.override)}
    steps = args.steps or load_preset(args.preset).train.training["steps"]
    looks = {"training.steps": steps, "training.evaluate_every": -(-steps // args.looks)}
    preset = load_preset(args.preset, {**looks, **overrides})
    settings = {"preset": args.preset, "model": preset.model, "training": preset.train.training, "pairs": args.pairs}
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    keep_freed_memory()
    ranking = Ranking(records, corpus_tokenizer(inputs["vocabulary"].read_file("tokenizer.json").decode()), args.pairs)
    known = [json.loads(line) for line in args.record.read_text().splitlines()] if args.record.exists() else []
    lines = [
        "# What ELECTRA+EM+PAP learns of products",
        "",
        f"{datetime.date.today()}; {cpu_name()}, one thread, other work on the machine; torch {torch.__version__}, "
        f"Python {platform.python_version()}. {preset.description}. {inputs['products'].rows('products'):,} pairs of "
        f"title and attribute to train on, {args.pairs:,} of held-out titles asked.",
        "",
    ]
    for seed in args.seeds:
        done = [one for one in known if one["seed"] == seed and one["settings"] == settings]
        if not done:
            done = [{"seed": seed, "settings": settings, "looks": run(preset, inputs, ranking, seed)}]
            with args.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[0]) + "\n")
        lines += [f"## Seed {seed}", "", *page(done[0]["looks"])]
    publish(lines, args.output)


if __name__ == "__main__":
    main()
