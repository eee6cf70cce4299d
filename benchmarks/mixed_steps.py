"""Step times of a run that mixes two tasks, against those of each task in a run of its own.

    python benchmarks/mixed_steps.py [--preset electra-tiny] [--rounds 7] [--steps 20] [--output FILE.md]

Both tasks are ELECTRA's loss, on streams of their own: `long` has --rows rows with the lengths of real text, `short`
16 rows of at most 128 tokens, as the second task of ELECTRA+EM+PAP. A batch is the whole stream, so that all batches
of a task are as much work. Each round trains three models from the beginning, in turns, by the training loop itself:
one on each task and one on both, half of the steps each. The first half of each training is not counted. A row of the
page has medians over the rounds; the ratio is the median of each round's own.
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

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402
from benchmarks.pretrain_step import LENGTHS, make_rows  # noqa: E402
from models.objectives import check  # noqa: E402
from models.objectives.electra.config import ElectraObjectiveConfig  # noqa: E402
from models.objectives.electra.objective import Electra  # noqa: E402
from models.training.allocator import keep_freed_memory  # noqa: E402
from models.training.loop import TrainingConfig, Worker, train  # noqa: E402
from models.training.reader import ExampleStream  # noqa: E402
from models.training.tasks import Task, drawn_task  # noqa: E402

VOCABULARY = 21_128
SHORT_ROWS, SHORT_LENGTH = 16, 128


class Mixed(Electra):
    """ELECTRA on one or two streams."""

    def __init__(self, config: ElectraObjectiveConfig, shares: Mapping[str, float]) -> None:
        super().__init__(config)
        self.shares = shares

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Those that have a share."""
        return tuple(Task(name) for name in self.shares)

    def task(self, step: int, seed: int) -> str:
        """The task of a step, by the shares."""
        return drawn_task(self.shares, step, seed)

    def collate(
        self, rows: Sequence[Any], *, seed: int, step: int, row_indices: Any = None, task: str | None = None
    ) -> Any:
        """The same for both tasks."""
        return super().collate(rows, seed=seed, step=step, row_indices=row_indices)

    def rates(self, added: Mapping[str, Any]) -> dict[str, float]:
        """The loss alone: both tasks report the same figures."""
        return {"loss": super().rates(added)["loss"]}


class RowsPart:
    """Rows in memory as a part of a table."""

    def __init__(self, rows: Sequence[Mapping[str, np.ndarray]]) -> None:
        self._rows, self.rows = rows, len(rows)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Their columns."""
        kinds = {"input_ids": pa.uint32(), "word_starts": pa.uint16()}
        return pa.table(
            {name: pa.array([row[name].tolist() for row in self._rows], pa.list_(kind)) for name, kind in kinds.items()}
        )


def streams(rows: int, longest: int) -> dict[str, ExampleStream]:
    """The rows of both tasks."""
    lengths = np.minimum(np.array(LENGTHS), longest)
    short = make_rows(SHORT_ROWS, np.minimum(lengths, SHORT_LENGTH), seed=1)
    return {
        "long": ExampleStream([RowsPart(make_rows(rows, lengths, seed=0))], 1),
        "short": ExampleStream([RowsPart(short)], 2),
    }


def step_seconds(config: Any, shares: Mapping[str, float], args: argparse.Namespace) -> dict[str, float]:
    """Seconds of a step of each task, in a run with these shares."""
    torch.manual_seed(0)
    objective = Mixed(config, shares)
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
    parser.add_argument("--preset", default="electra-tiny", help="a preset of ELECTRA in flows/presets")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rows", type=int, default=16, help="rows in a batch of the long task")
    parser.add_argument("--steps", type=int, default=20, help="counted steps of each task in each run")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    preset = tomllib.loads((REPOSITORY / "flows" / "presets" / f"{args.preset}.toml").read_text(encoding="utf-8"))
    config = check("electra", {**preset["model"], "vocab_size": VOCABULARY})
    keep_freed_memory()
    ways = {"long": {"long": 1.0}, "short": {"short": 1.0}, "mixed": {"long": 0.5, "short": 0.5}}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(args.rounds):
        order = list(ways) if number % 2 == 0 else list(reversed(ways))
        for name in order:
            found[name].append(step_seconds(config, ways[name], args))
            print(f"# round {number} {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    rows = []
    for task in ("long", "short"):
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
        f"each task, {args.rows} long rows, {SHORT_ROWS} short ones.",
        "",
        *table(["task", "alone, ms", "in the mixed run, ms", "ratio", "ratios of the rounds"], rows),
        "",
    ]
    publish(page, args.output)


if __name__ == "__main__":
    main()
