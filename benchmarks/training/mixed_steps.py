"""Step times of a run that mixes two tasks, against those of each task in a run of its own.

    python benchmarks/training/mixed_steps.py [--preset electra-em-pap-tiny] [--rounds 7] [--steps 20]
        [--output FILE.md]

The tasks are those of ELECTRA+EM+PAP: RTD on --rows rows with the lengths of real text, cut to the model's longest, and
PAP on 16 pairs of title and attribute with four values each. A batch is the whole stream, so that all batches of a task
are as much work. Each round trains three models from the beginning, in turns, by the training loop itself: one on each
task and one on both, half of the steps each. The first half of each training is not counted. A row of the page has
medians over the rounds; the ratio is the median of each round's own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from benchmarks.training.pretrain_step import LENGTHS, make_rows  # noqa: E402
from models.objectives import check  # noqa: E402
from models.objectives.electra_em_pap.config import PAP, RTD, ElectraEmPapConfig  # noqa: E402
from models.objectives.electra_em_pap.objective import PAIRS, ElectraEmPap  # noqa: E402
from models.objectives.electra_em_pap.values import ProductValues  # noqa: E402
from models.training.allocator import keep_freed_memory  # noqa: E402
from models.training.columns import WORDS  # noqa: E402
from models.training.loop import TrainingConfig, Worker, train  # noqa: E402
from models.training.reader import ExampleStream  # noqa: E402
from models.training.tasks import Task, drawn_task  # noqa: E402

VOCABULARY = 21_128
PAIR_ROWS, VALUES_OF_A_PAIR, VALUE_TOKENS, VALUES = 16, 4, 10, 400
KINDS = {
    "input_ids": pa.list_(pa.uint32()),
    "word_starts": pa.list_(pa.uint16()),
    "second": pa.uint16(),
    "attribute": pa.uint32(),
    "values": pa.list_(pa.uint32()),
}


class Chosen(ElectraEmPap):
    """ELECTRA+EM+PAP on one or both of its tasks, always with the parameters of both."""

    def __init__(self, config: ElectraEmPapConfig, shares: Mapping[str, float]) -> None:
        super().__init__(config)
        self.chosen = shares
        self._values = values()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Those that have a share."""
        return tuple(task for task in super().tasks if task.name in self.chosen)

    def task(self, step: int, seed: int) -> str:
        """The task of a step, by the shares."""
        return drawn_task(self.chosen, step, seed)

    def collate(self, rows: Any, *, seed: int, step: int, row_indices: Any = None, task: str | None = None) -> Any:
        """An only task is not named by the loop."""
        task = task or self.tasks[0].name
        return super().collate(rows, seed=seed, step=step, row_indices=row_indices, task=task)


class RowsPart:
    """Rows in memory as a part of a table."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows, self.rows = rows, len(rows)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Some of their columns."""
        wanted = {name: [np.asarray(row[name]).tolist() for row in self._rows] for name in columns or ()}
        return pa.table({name: pa.array(given, KINDS[name]) for name, given in wanted.items()})


def values() -> ProductValues:
    """Values of one attribute, all of the same length."""
    ids = np.random.default_rng(2).integers(5, VOCABULARY, (VALUES, VALUE_TOKENS)).astype(np.uint32)
    ids[:, 0], ids[:, -1] = 2, 3
    every = np.arange(VALUES, dtype=np.uint32)
    borders = np.arange(VALUES + 1, dtype=np.int64) * VALUE_TOKENS
    return ProductValues(ids.ravel(), borders, every, np.array([0, VALUES]), np.ones(VALUES, dtype=np.uint32))


def pair_rows() -> list[dict[str, Any]]:
    """Pairs of a title of 20 tokens and an attribute of 3, with their values."""
    generator = np.random.default_rng(3)
    rows = []
    for _ in range(PAIR_ROWS):
        ids = generator.integers(5, VOCABULARY, 26)
        ids[[0, 21, 25]] = 2, 3, 3
        chosen = generator.choice(VALUES, VALUES_OF_A_PAIR, replace=False)
        rows.append({"input_ids": ids, "second": 22, "attribute": 0, "values": np.sort(chosen)})
    return rows


def streams(rows: int, longest: int) -> dict[str, ExampleStream]:
    """The rows of both tasks."""
    lengths = np.random.default_rng(0).choice(np.minimum(np.array(LENGTHS), longest), rows)
    return {
        RTD: ExampleStream([RowsPart(make_rows(lengths, seed=0))], 1, WORDS),
        PAP: ExampleStream([RowsPart(pair_rows())], 2, PAIRS),
    }


def step_seconds(config: Any, shares: Mapping[str, float], args: argparse.Namespace) -> dict[str, float]:
    """Seconds of a step of each task, in a run with these shares."""
    torch.manual_seed(0)
    objective = Chosen(config, shares)
    given = streams(args.rows, config.max_positions)
    own = {name: given[name] for name in shares}
    steps = 2 * args.steps * len(shares)
    settings = TrainingConfig(
        steps=steps,
        batch_size=args.rows,
        learning_rate=1e-4,
        warmup_steps=1,
        log_every=steps // 2,
        evaluate_every=steps,
        held_out_batches=1,
        checkpoint_every=steps,
        precision=args.precision,
        tasks={name: {"batch_size": stream.rows} for name, stream in own.items()},
    )
    found: list[Mapping[str, float]] = []

    def report(step: int, split: str, figures: Mapping[str, float]) -> None:
        if split == "train":
            found.append(figures)

    train(objective, own, own, settings, worker=Worker(device=torch.device(args.device)), report=report)
    last = found[-1]
    if len(shares) == 1:
        return {name: last["step_seconds"] for name in shares}
    return {name: last[f"step_seconds_{name}"] for name in shares}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="electra-em-pap-tiny", help="a preset of the objective")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rows", type=int, default=16, help="rows of text in a batch")
    parser.add_argument("--steps", type=int, default=20, help="counted steps of each task in each run")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    preset = tomllib.loads((REPOSITORY / "flows" / "presets" / f"{args.preset}.toml").read_text(encoding="utf-8"))
    own = {"vocab_size": VOCABULARY, "pap_share": 0.5, "entity_masking": False}
    config = check("electra_em_pap", {**preset["model"], **own})
    keep_freed_memory()
    ways = {RTD: {RTD: 1.0}, PAP: {PAP: 1.0}, "mixed": {RTD: 0.5, PAP: 0.5}}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(args.rounds):
        order = list(ways) if number % 2 == 0 else list(reversed(ways))
        for name in order:
            found[name].append(step_seconds(config, ways[name], args))
            print(f"# round {number} {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    rows = []
    for task in (RTD, PAP):
        alone, mixed = ([one[task] for one in found[way]] for way in (task, "mixed"))
        ratios = [ours / theirs for ours, theirs in zip(mixed, alone, strict=True)]
        rows.append(
            [
                task,
                f"{1e3 * statistics.median(alone):.1f}",
                f"{1e3 * statistics.median(mixed):.1f}",
                f"{statistics.median(ratios):.3f}",
                f"{min(ratios):.3f} to {max(ratios):.3f}",
            ]
        )
    device = (
        torch.cuda.get_device_name() if args.device == "cuda" else f"{cpu_name()}, {torch.get_num_threads()} threads"
    )
    page = [
        f"# Steps of a mixed run, preset {args.preset}, {args.device}, {args.precision}",
        "",
        f"{date.today()}; {device}; torch {torch.__version__}; {args.rounds} rounds of {args.steps} counted steps of "
        f"each task, {args.rows} rows of text, {PAIR_ROWS} pairs.",
        "",
        *table(["task", "alone, ms", "in the mixed run, ms", "ratio", "ratios of the rounds"], rows),
        "",
    ]
    publish(page, args.output)


if __name__ == "__main__":
    main()
