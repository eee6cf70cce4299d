"""Recipes of small encoders at equal cost: each variant of a preset trains on real text for as many CPU seconds.

    YIWEN_HOME=home python benchmarks/training/mini_recipe.py --examples FINGERPRINT --preset bert-mini --seconds 240
        --record runs.jsonl --run base "rate 2e-3: training.learning_rate=2e-3"

Reads encoded examples of YIWEN_HOME (the stage `encode`). A variant is a name and, after a colon, dotted keys of the
preset with JSON values. Each is trained by the loop of the flow, on one thread, within the budget, and judged on the
same held-out rows. The seconds are CPU seconds of training, without evaluation, which other work on the machine changes
little.

`--peer ours|transformers` compares learning per step instead: the same masked batches, sizes, optimiser, schedule and
number of steps, by our encoder, or by transformers' RoFormer or BERT on padded rows with weights of its own draw.
`--page` writes the page from the record, with whatever runs it has.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from flows.recipes.pretraining import Preset, load_preset
from infra.artifacts import Artifact, ArtifactStore
from infra.settings import Settings
from models import objectives
from models.batch import MaskedBatch
from models.training.allocator import keep_freed_memory
from models.training.config import TrainingConfig
from models.training.global_batch import read_global_batch
from models.training.loop import train, training_config
from models.training.optimisation import learning_rate_at
from models.training.reader import ExampleStream
from models.training.step_batches import step_batches
from models.training.worker import Worker

HELD_OUT_ROWS = 384
PEER_ROWS = 128
"""Held-out rows of the comparison by steps."""
LOOKS = 4
"""Evaluations of a run, evenly spaced."""
SHOWN = ("mlm_accuracy", "mlm_loss", "rtd_balanced_accuracy", "mts_accuracy", "csp_accuracy")
PAST_ALL = 10_000_000
"""Steps that no budget reaches."""


def overrides_of(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and overrides of `rate 2e-3: training.learning_rate=2e-3, training.batch_size=16`."""
    name, _, given = text.partition(":")
    pairs = [one.strip().split("=", 1) for one in given.split(",") if one.strip()]
    return name.strip(), {key: _value(value) for key, value in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def streams(objective: Any, examples: Artifact, seed: int) -> tuple[ExampleStream, ExampleStream]:
    """Return the training examples and the held-out ones."""
    parts = (examples.parts(name) for name in ("examples", "held_out"))
    text, held_out = (ExampleStream(part, seed, objective.columns) for part in parts)
    return text, held_out


def budgeted(preset: str, overrides: Mapping[str, Any], seconds: float) -> Preset:
    """Return the preset for a run of so many CPU seconds, evaluated `LOOKS` times."""
    plain = load_preset(preset, overrides)
    size = plain.train.training["batch_size"]
    looks = {
        "training.steps": PAST_ALL,
        "training.cpu_seconds": seconds,
        "training.milestones": [look / LOOKS for look in range(1, LOOKS)],
        "training.evaluate_every": PAST_ALL,
        "training.checkpoint_every": PAST_ALL,
        "training.held_out_batches": max(1, HELD_OUT_ROWS // size),
    }
    return load_preset(preset, {**looks, **overrides})


def run(preset: Preset, examples: Artifact, vocabulary: int) -> dict[str, Any]:
    """Train a preset; return its curve."""
    config = training_config(preset.train.training)
    torch.manual_seed(config.seed)
    objective = objectives.build(preset.objective, {**preset.model, "vocab_size": vocabulary})
    curve: list[dict[str, float]] = []
    speeds: list[float] = []

    def report(step: int, split: str, values: Mapping[str, float]) -> None:
        if split == "train":
            speeds.append(values["tokens_per_second"])
        if split == "held_out":
            curve.append({"step": step, **values})
            shown = ", ".join(f"{name} {values[name]:.3f}" for name in SHOWN if name in values)
            print(f"# step {step}, {values.get('cpu_seconds', 0):.0f} s: {shown}", file=sys.stderr, flush=True)

    text, held_out = streams(objective, examples, config.seed)
    train(objective, text, held_out, config, report=report)
    parameters = sum(parameter.numel() for parameter in objective.parameters())
    return {"curve": curve, "parameters": parameters, "tokens_per_second": sorted(speeds)[len(speeds) // 2]}


def per_step(preset: Preset, examples: Artifact, vocabulary: int, peer: bool, steps: int) -> dict[str, Any]:
    """Train BERT by steps on our masked batches: our network, or `peer`, transformers'; return its curve."""
    given = {**preset.train.training, "steps": steps}
    config = training_config(given)
    torch.manual_seed(config.seed)
    settings = {**preset.model, "vocab_size": vocabulary}
    objective = objectives.build(preset.objective, settings)
    network = _transformers_network(settings) if peer else objective
    optimizer = torch.optim.AdamW(
        _groups(network, config.weight_decay), lr=config.learning_rate, eps=config.adam_epsilon
    )
    text, held_out = streams(objective, examples, config.seed)
    batches = step_batches(objective, {"bert": text}, config, Worker(), first_step=0, positions={})
    curve: list[dict[str, float]] = []
    began = time.process_time()
    for step, batch in enumerate(batches):
        rate = learning_rate_at(
            step, peak=config.learning_rate, warmup_steps=config.warmup_steps, total_steps=config.steps
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        network.train()
        (one,) = batch.shared.micro_batches
        loss = _peer_loss(network, one)[0] if peer else network(one)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % max(1, steps // LOOKS) == 0:
            spent = time.process_time() - began
            figures = _judged(network, objective, held_out, config, peer)
            curve.append({"step": step + 1, "cpu_seconds": spent, **figures})
            print(f"# step {step + 1}, {spent:.0f} s: {figures}", file=sys.stderr, flush=True)
    return {"curve": curve, "parameters": sum(parameter.numel() for parameter in network.parameters())}


def _transformers_network(settings: Mapping[str, Any]) -> torch.nn.Module:
    from transformers import BertConfig, BertForMaskedLM, RoFormerConfig, RoFormerForMaskedLM

    sizes: dict[str, Any] = {
        "vocab_size": settings["vocab_size"],
        "hidden_size": settings["hidden_size"],
        "num_hidden_layers": settings["num_layers"],
        "num_attention_heads": settings["num_heads"],
        "intermediate_size": settings["intermediate_size"],
        "max_position_embeddings": settings["max_positions"],
        "hidden_dropout_prob": settings["hidden_dropout"],
        "attention_probs_dropout_prob": settings["attention_dropout"],
        "initializer_range": settings["initializer_range"],
    }
    if settings["positions"] == "rotary":
        return RoFormerForMaskedLM(RoFormerConfig(embedding_size=settings["hidden_size"], **sizes))
    return BertForMaskedLM(BertConfig(**sizes))


def _groups(network: torch.nn.Module, decay: float) -> list[dict[str, Any]]:
    """Groups of parameters with and without weight decay, as transformers' Trainer makes them."""
    spared = [p for name, p in network.named_parameters() if name.endswith("bias") or "norm" in name.lower()]
    known = {id(p) for p in spared}
    decayed = [p for p in network.parameters() if id(p) not in known]
    return [{"params": decayed, "weight_decay": decay}, {"params": spared, "weight_decay": 0.0}]


def _peer_loss(network: torch.nn.Module, batch: MaskedBatch) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the mean loss, the number of right answers and of selected tokens of a padded batch."""
    lengths = [int(length) for length in batch.layout.lengths]
    width = max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    labels = torch.full((len(lengths), width), -100)
    labels_T = torch.full((batch.tokens,), -100)
    labels_T[batch.selected] = batch.original
    begin = 0
    for row, length in enumerate(lengths):
        ids[row, :length] = batch.input_ids[begin : begin + length]
        labels[row, :length] = labels_T[begin : begin + length]
        begin += length
    mask = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    logits = network(input_ids=ids, attention_mask=mask.long()).logits
    at = labels >= 0
    chosen, wanted = logits[at], labels[at]
    return F.cross_entropy(chosen, wanted), (chosen.argmax(1) == wanted).sum(), len(wanted)


@torch.no_grad()
def _judged(
    network: Any, objective: Any, held_out: ExampleStream, config: TrainingConfig, peer: bool
) -> dict[str, float]:
    """Return loss and accuracy on the same masked held-out rows for both."""
    network.eval()
    size = config.batch_size or 32
    loss = right = total = 0.0
    for number in range(PEER_ROWS // size):
        rows = read_global_batch(held_out, number * size, size=size, whole_stream=True).rows
        batch = objective.collate(rows, seed=config.seed + 1, step=number, row_indices=range(size))
        if peer:
            mean, correct, count = _peer_loss(network, batch)
            loss, right, total = loss + float(mean) * count, right + float(correct), total + count
        else:
            sums = objective.metrics(batch)
            loss += float(sums["mlm_loss_sum"])
            right, total = right + float(sums["mlm_correct"]), total + float(sums["mlm_total"])
    return {"mlm_loss": loss / total, "mlm_accuracy": right / total}


def page(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table for each preset and kind of run: variants by their last held-out figures, with the curve."""
    lines: list[str] = []
    for kind in dict.fromkeys((one["preset"], one["kind"], one["limit"]) for one in runs):
        own = [one for one in runs if (one["preset"], one["kind"], one["limit"]) == kind]
        figures = [name for name in SHOWN if name in own[0]["curve"][-1]]
        places = [f"{look}/{LOOKS}" for look in range(1, LOOKS + 1)]
        lead = figures[0]
        unit = "CPU seconds" if kind[1] == "budget" else "steps"
        lines += [f"## {kind[0]}, {kind[2]:g} {unit}", ""]
        rows = []
        for one in own:
            at = [f"{point[lead]:.3f}" for point in one["curve"][-LOOKS:]]
            last = [f"{one['curve'][-1][name]:.3f}" for name in figures[1:]]
            steps = f"{one['curve'][-1]['step']:,}"
            rows.append([one["name"], steps, f"{one['curve'][-1]['cpu_seconds']:.0f}", *at, *last])
        lines += table(["variant", "steps", "CPU s", *(f"{lead} {place}" for place in places), *figures[1:]], rows)
        lines.append("")
    return lines


def main() -> None:
    """Train what the record lacks; with --page, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="bert-mini")
    parser.add_argument("--examples", help="fingerprint of the encoded examples; by default the newest")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--steps", type=int, default=600, help="of each run with --peer")
    parser.add_argument("--peer", choices=("ours", "transformers"))
    parser.add_argument("--record", type=Path, required=True, help="JSON lines of finished runs; added to")
    parser.add_argument("--run", nargs="*", default=[], help="variants, as `name: key=value, key=value`")
    parser.add_argument("--page", type=Path, help="write the page of all runs of the record")
    args = parser.parse_args()
    known = [json.loads(line) for line in args.record.read_text().splitlines()] if args.record.exists() else []
    if args.run:
        store = ArtifactStore(Settings.from_environment().home)
        examples = store.get("encode", args.examples) if args.examples else store.latest("encode")
        if examples is None:
            raise SystemExit("no encoded examples in YIWEN_HOME")
        given = examples.manifest.inputs["vocabulary"]
        vocabulary = store.get(given.stage, given.fingerprint)
        assert vocabulary is not None
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        keep_freed_memory()
        for text in args.run:
            name, overrides = overrides_of(text)
            kind = "budget" if args.peer is None else "steps"
            limit = args.seconds if args.peer is None else args.steps
            name = name if args.peer is None else f"{name} ({args.peer})"
            if any((one["name"], one["preset"], one["limit"]) == (name, args.preset, limit) for one in known):
                continue
            print(f"# {name}", file=sys.stderr, flush=True)
            if args.peer is None:
                found = run(budgeted(args.preset, overrides, args.seconds), examples, vocabulary.rows())
            else:
                preset = load_preset(args.preset, overrides)
                found = per_step(preset, examples, vocabulary.rows(), args.peer == "transformers", args.steps)
            about = {"name": name, "preset": args.preset, "kind": kind, "limit": limit, "overrides": overrides}
            rows = {"rows": examples.rows("examples"), "examples": examples.fingerprint}
            with args.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**about, **rows, **found}) + "\n")
            known.append({**about, **rows, **found})
    if args.page:
        with contextlib.suppress(IndexError):
            head = [f"# Recipes of mini encoders, {datetime.date.today()}", ""]
            head += [f"{cpu_name()}, one thread; torch {torch.__version__}, Python {platform.python_version()}.", ""]
            publish([*head, *page(known)], args.page)


if __name__ == "__main__":
    main()
