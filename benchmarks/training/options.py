"""Effect of options beyond the paper: length warm-up and higher masking rates on the tiny preset, at equal compute.

    YIWEN_HOME=artifacts python benchmarks/training/options.py --steps 150

Reads the newest examples that `pretrain/ehealth-tiny` made in YIWEN_HOME. Every setting gets the model FLOPs of
`--steps` steps of the unchanged preset. The mean of a setting's first batches decides how many steps that is, and
warm-up and decay of the learning rate span them. All are compared on the same held-out rows with the same masks, at the
preset's masking rate, whatever they were trained with. The difference made by another seed is the noise level.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from flows.recipes.pretraining import load_preset
from infra.artifacts import Artifact, ArtifactStore
from infra.settings import Settings
from models import objectives
from models.training.global_batch import read_global_batch
from models.training.loop import Worker, evaluate, train, training_config
from models.training.reader import ExampleStream

PRESET = "ehealth-tiny"
FIGURES = ("mlm_loss", "rtd_loss", "mts_loss", "csp_loss", "mts_accuracy", "rtd_balanced_accuracy")
SAMPLED = 20
"""Batches whose mean says what a step of a setting costs."""


class Setting(NamedTuple):
    """One column of the page."""

    name: str
    model: Mapping[str, Any] = {}
    training: Mapping[str, Any] = {}


def settings(short: int) -> list[Setting]:
    """What is compared; the first two say what a seed changes."""
    return [
        Setting("as it is"),
        Setting("as it is, other seed", training={"seed": 43}),
        Setting(f"length {short} for the first half", training={"length_warmup_tokens": short}),
        Setting("masking 0.25", model={"mask_probability": 0.25}),
        Setting("masking 0.40", model={"mask_probability": 0.40}),
    ]


def build(model: Mapping[str, Any], seed: int) -> Any:
    """Fresh weights of a seed."""
    torch.manual_seed(seed)
    return objectives.build("ehealth", model)


def step_flops(objective: Any, examples: ExampleStream, batch_size: int, longest: int | None) -> float:
    """Mean model FLOPs of a step over the first batches."""
    total = 0.0
    for step in range(SAMPLED):
        batch = read_global_batch(examples, step * batch_size, size=batch_size, longest=longest)
        total += objective.flops(objective.collate(batch.rows, seed=1, step=step))
    return total / SAMPLED


def run(one: Setting, model: dict[str, Any], given: dict[str, Any], examples: Artifact, steps: int) -> dict[str, float]:
    """Train a setting with the FLOPs of `steps` steps of the preset; held-out figures, steps and CPU seconds."""
    seed = one.training.get("seed", given.get("seed", 42))
    text, held_out = (ExampleStream(examples.parts(name), 42) for name in ("examples", "held_out"))
    objective, size = build({**model, **one.model}, seed), given["batch_size"]
    whole = step_flops(build(model, seed), text, size, None)
    own, short = step_flops(objective, text, size, None), one.training.get("length_warmup_tokens")
    cheap = own if short is None else step_flops(objective, text, size, short)
    taken = round(steps * whole / ((own + cheap) / 2))
    plan = {"steps": taken, "evaluate_every": taken, "checkpoint_every": taken, "log_every": taken}
    plan |= {"length_warmup_steps": taken // 2} if short is not None else {}
    config = training_config({**given, **one.training, **plan, "warmup_steps": min(given["warmup_steps"], taken // 4)})
    began = time.process_time()
    train(objective, text, held_out, config)
    seconds = time.process_time() - began
    judge = build(model, seed)
    judge.load_state_dict(objective.state_dict())
    same = training_config({**given, **plan, "length_warmup_steps": 0, "seed": 42, "warmup_steps": 0})
    figures = evaluate(judge, held_out, same, Worker())
    print(f"# {one.name}: {taken} steps, {seconds:.0f} s", file=sys.stderr, flush=True)
    return {"steps": taken, "CPU seconds": seconds} | {name: figures[name] for name in FIGURES}


def page(results: Mapping[str, Mapping[str, float]], args: argparse.Namespace) -> list[str]:
    """The result as a Markdown page."""
    names = list(results)
    rows = [["steps", *(f"{results[name]['steps']:,.0f}" for name in names)]]
    rows += [[figure, *(f"{results[name][figure]:.4f}" for name in names)] for figure in FIGURES]
    rows += [["CPU seconds", *(f"{results[name]['CPU seconds']:.0f}" for name in names)]]
    return [
        f"# Options beyond the paper, preset {PRESET}, on a CPU",
        "",
        f"{datetime.date.today()}; {cpu_name()}, one thread, other work on the machine; torch {torch.__version__}. "
        f"Templated text of the demo. Each column has the model FLOPs of {args.steps} steps of the preset, which has "
        f"{load_preset(PRESET).train.training['steps']:,}: a tiny model, briefly trained, in one seed but for the "
        "second column. Held-out text with the preset's masks; RTD trained with more masking expects more "
        "replaced tokens than these hold, which raises its loss there.",
        "",
        *table(["held out", *names], rows),
        "",
        *verdicts(results),
        "",
        "What a tiny model does in so few steps says little of a large one in a million: no reason to turn one on.",
        "",
    ]


def verdicts(results: Mapping[str, Mapping[str, float]]) -> list[str]:
    """For each option, which losses it lowers or raises by more than another seed does."""
    names = list(results)
    plain, other = (results[name] for name in names[:2])
    lines = []
    for name in names[2:]:
        said = []
        for figure in FIGURES[:4]:
            change, noise = results[name][figure] - plain[figure], abs(other[figure] - plain[figure])
            verdict = "within the noise" if abs(change) <= noise else "better" if change < 0 else "worse"
            said.append(f"{figure} {change:+.4f} ({verdict}; another seed: {noise:.4f})")
        lines.append(f"- {name}: {', '.join(said)}.")
    return lines


def main() -> None:
    """Train all settings in turn, compare, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150, help="of the preset as it is")
    parser.add_argument("--short", type=int, default=64, help="tokens of a row during length warm-up")
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    args = parser.parse_args()
    store = ArtifactStore(Settings.from_environment().home)
    examples, vocabulary = store.latest("encode"), store.latest("vocabulary")
    if examples is None or vocabulary is None:
        raise SystemExit(f"no examples in YIWEN_HOME: run `python -m flows run pretrain/{PRESET}` first")
    preset = load_preset(PRESET)
    model = {**preset.model, "vocab_size": vocabulary.rows()}
    torch.use_deterministic_algorithms(True)
    given = dict(preset.train.training)
    results = {one.name: run(one, model, given, examples, args.steps) for one in settings(args.short)}
    publish(page(results, args), args.output)


if __name__ == "__main__":
    main()
