"""Waiting times of a user before and around the work: help, mistakes, and runs in which everything is reused.

    python benchmarks/startup.py [--before CHECKOUT] [--rounds 5] [--output benchmarks/results/product/NAME.md]

Every figure is the wall time of a whole command, as a user types it, in a process of its own. With `--before` the same
commands also run in another checkout of this project, alternating with this one, each with its own store; both use the
Python that runs this script. The first run of each command in each checkout is not counted: it compiles modules, and
fills the store that later runs reuse. The text is templated articles of CMeKG. The demo's training is cut to a few
steps, which makes no difference to a run that reuses it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402


class Command(NamedTuple):
    """What is timed: words after `python -m flows`, and the exit status that shows that it did what it should."""

    title: str
    words: tuple[str, ...]
    status: int = 0


COMMANDS = (
    Command("`--help`", ("--help",)),
    Command("`list`", ("list",)),
    Command("a wrong key", ("run", "corpus/refresh", "--param", "segment.min_tokenz=3"), 2),
    Command("a wrong value", ("run", "corpus/refresh", "--param", "deduplicate.threshold=many"), 2),
    Command("a wrong key of training", ("run", "pretrain/ehealth-tiny", "--param", "training.stepz=3"), 2),
    Command("refresh with nothing new", ("run", "corpus/refresh")),
    Command(
        "second demo",
        ("run", "pretrain/ehealth-tiny", "--param", "training.steps=4", "--param", "training.warmup_steps=1"),
    ),
)


def seconds(command: Command, checkout: Path, home: Path) -> float:
    """Wall seconds of a command in a checkout.

    Raises:
        SystemExit: it ended with another status than it should.
    """
    environment = {**os.environ, "YIWEN_HOME": str(home), "PYTHONPATH": str(checkout)}
    environment.pop("PREFECT_API_URL", None)
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "flows", *command.words], cwd=checkout, env=environment, capture_output=True, text=True
    )
    taken = time.monotonic() - started
    if done.returncode != command.status:
        raise SystemExit(f"{checkout}: {command.title} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return taken


def spread(values: Sequence[float]) -> str:
    """Median, smallest and largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each command in each checkout")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    checkouts = {"this checkout": REPOSITORY}
    if options.before is not None:
        checkouts = {"before": options.before.resolve(), **checkouts}
    rows = []
    with tempfile.TemporaryDirectory(prefix="yiwen-startup-") as temporary:
        homes = {name: Path(temporary) / name.split()[0] for name in checkouts}
        for command in COMMANDS:
            taken: dict[str, list[float]] = {name: [] for name in checkouts}
            for number in range(options.rounds + 1):
                for name, checkout in checkouts.items():
                    one = seconds(command, checkout, homes[name])
                    if number:
                        taken[name].append(one)
            rows.append([command.title, *(spread(values) for values in taken.values())])
            print(*rows[-1], file=sys.stderr, flush=True)
    page = [
        f"# Start-up, {date.today().isoformat()}",
        "",
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}. Seconds of whole "
        f"commands, without a Prefect server: median of {options.rounds} runs (smallest to largest).",
        "",
        *table(["`python -m flows` …", *checkouts], rows),
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
