"""The whole demo, twice: seconds and peak memory of every stage, then the second run that reuses everything.

    python benchmarks/demo.py [--output benchmarks/results/product/NAME.md] [--home FOLDER] [--param key=value …]

Each run is the command that a user types, in a process of its own. The first has a fresh store. Seconds and peak memory
of a stage are those of its manifest; peak memory of the run is that of all its processes together (resident memory
without shared pages, sampled twice a second).
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish  # noqa: E402
from infra.artifacts import ArtifactStore  # noqa: E402


class MemoryWatch(threading.Thread):
    """Samples the memory of a process and its descendants: unique set size, summed; keeps the largest."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._root = psutil.Process(pid)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.5):
            self.peak = max(self.peak, self._now())

    def stop(self) -> int:
        """End the watch; returns the peak in bytes."""
        self._stopped.set()
        self.join()
        return self.peak

    def _now(self) -> int:
        total = 0
        try:
            family = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return 0
        for process in family:
            try:
                total += process.memory_full_info().uss
            except psutil.Error:
                continue
        return total


def timed_run(home: Path, params: Sequence[str]) -> tuple[float, int]:
    """Run the demo's command; returns seconds and peak memory in bytes."""
    arguments = [argument for param in params for argument in ("--param", param)]
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", "run", "pretrain/ehealth-tiny", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "YIWEN_HOME": str(home), "PYTHONPATH": str(REPOSITORY)},
    )
    watch = MemoryWatch(process.pid)
    watch.start()
    if process.wait() != 0:
        raise SystemExit(f"the demo failed with exit code {process.returncode}")
    return time.monotonic() - started, watch.stop()


def report(home: Path, first: tuple[float, int], second: tuple[float, int]) -> list[str]:
    """The table as Markdown."""
    lines = [
        f"# The demo, {date.today().isoformat()}",
        "",
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB, Python {platform.python_version()}; no accelerator. "
        "Text: templated articles of CMeKG.",
        "",
        "| stage | rows out | wall s | CPU s | peak MiB of one process |",
        "|---|---|---|---|---|",
    ]
    for artifact in sorted(ArtifactStore(home).list(), key=lambda one: one.manifest.created_at):
        manifest = artifact.manifest
        rows = ", ".join(f"{table.rows:,} {name}" for name, table in manifest.tables.items())
        memory = manifest.peak_memory_bytes / 2**20
        lines.append(
            f"| {manifest.stage} | {rows} | {manifest.wall_seconds:.1f} | {manifest.cpu_seconds:.1f} | {memory:,.0f} |"
        )
    lines += ["", "| run | seconds | peak GiB, all processes |", "|---|---|---|"]
    for name, (seconds, memory) in (("first", first), ("second, everything reused", second)):
        lines.append(f"| {name} | {seconds:.0f} | {memory / 2**30:.2f} |")
    lines += ["", "The training stage's CPU seconds and memory are those of the process that waits for it.", ""]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the table here too")
    parser.add_argument("--home", type=Path, help="store to use, empty; a temporary one by default")
    parser.add_argument("--param", action="append", default=[], help="passed on to the flow")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yiwen-demo-") as temporary:
        home = options.home or Path(temporary)
        first = timed_run(home, options.param)
        second = timed_run(home, options.param)
        page = report(home, first, second)
    publish(page, options.output)


if __name__ == "__main__":
    main()
