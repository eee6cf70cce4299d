"""What machine code costs a fresh clone: the corpus flow on a few texts, compiled and then from Numba's cache.

    python benchmarks/first_call.py [--rounds 3] [--output benchmarks/results/product/NAME.md]

Each round begins with an empty cache and has two runs, each in a process and with a store of its own, so that both do
the same work. CPU seconds include children.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pages import cpu_name, publish, table  # noqa: E402

TEXTS = (
    "患者因头痛三天入院，血压120/80mmHg，心率72次/分。既往体健，否认高血压、糖尿病史。",
    "入院后完善检查，头颅CT未见异常，予布洛芬0.3g口服，每日两次，两天后头痛缓解，准予出院。",
    "糖尿病患者应定期检查眼底和尿蛋白，血糖控制不佳时须调整胰岛素用量，并注意低血糖反应。",
)
"""Synthetic; written for this benchmark."""


def spent(corpus: Path, home: Path, cache: Path) -> tuple[float, float]:
    """Return CPU and wall seconds of the corpus flow.

    Raises:
        SystemExit: the flow failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "YIWEN_HOME": str(home), "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PREFECT_API_URL", None)
    command = [sys.executable, "-m", "flows", "run", "corpus/refresh", "--param", f"corpus={corpus}"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"the flow ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"compiled": [], "from the cache": []}
    with tempfile.TemporaryDirectory(prefix="yiwen-first-") as temporary:
        corpus = Path(temporary) / "texts"
        corpus.mkdir()
        for number, text in enumerate(TEXTS):
            (corpus / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
        for number in range(options.rounds):
            cache = Path(temporary) / f"cache {number}"
            for way, runs in found.items():
                runs.append(spent(corpus, Path(temporary) / f"home {number} {way}", cache))
                print(number, way, *(f"{one:.1f}" for one in runs[-1]), file=sys.stderr, flush=True)
        files = list(cache.rglob("*.nbc"))
        size = sum(file.stat().st_size for file in files) / 1e6
    rows = [
        [
            way,
            *(
                f"{statistics.median(column):.1f} ({min(column):.1f} to {max(column):.1f})"
                for column in zip(*runs, strict=True)
            ),
        ]
        for way, runs in found.items()
    ]
    page = [
        f"# First call of a fresh clone, {date.today()}",
        "",
        f"`corpus/refresh` on {len(TEXTS)} short synthetic texts; {cpu_name()}, {len(os.sched_getaffinity(0))} cores, "
        f"Python {platform.python_version()}. Seconds: median of {options.rounds} rounds (smallest to largest), "
        "imports and Prefect included.",
        "",
        *table(["machine code", "CPU s", "wall s"], rows),
        "",
        f"{len(files)} compiled signatures, {size:.1f} MB, in the cache.",
        "",
    ]
    publish(page, options.output)


if __name__ == "__main__":
    main()
