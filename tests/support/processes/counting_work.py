"""A program of long work that only counts, to test launching.

python -m tests.support.processes.counting_work run.json
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from infra.errors import UserError
from tasks.training.launch import LongWork, Progress
from tasks.training.launch.program import run_program
from tasks.training.metrics_log import MetricsLog


class CountingWork(LongWork):
    kind: ClassVar[str] = "count"
    module: ClassVar[str] = "tests.support.processes.counting_work"

    steps: int = 3
    ending: str = "done"

    @property
    def unit(self) -> str:
        return "number"

    @property
    def total(self) -> int:
        return self.steps

    def progress(self, entries: Sequence[Mapping[str, Any]]) -> Progress | None:
        return Progress(entries[-1]["step"], "counted") if entries else None


def count(work: CountingWork) -> None:
    """Count to the end, and end as the work says."""
    log = MetricsLog(work.metrics_path, 0)
    print(f"process {os.getpid()}", flush=True)
    for step in range(1, work.steps + 1):
        log(step, "train", {})
    if work.ending == "user error":
        raise UserError("cluster.workers is 9. Reduce it.")
    if work.ending == "defect":
        raise IndexError("no such place")
    if work.ending == "never":
        time.sleep(600)
    if work.ending == "done":
        work.write_result(b"{}")


if __name__ == "__main__":
    sys.exit(run_program(CountingWork, count, __doc__, None))
