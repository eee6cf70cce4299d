"""The curves of long work for MLflow and TensorBoard, as they grow (infra/tracking.py)."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

from infra.console.progress import BestEffort
from infra.tracking import Report, Tracker, is_tracked, tracked
from tasks.training.launch.follow import RunFollower, watching
from tasks.training.launch.work import LongWork


@contextlib.contextmanager
def curves_tracked(work: LongWork) -> Iterator[None]:
    """Write what the metrics file gains in the block to the trackers that users ask for.

    Work that resumes continues its run. What a killed run wrote after its last checkpoint is done again with the same
    figures, which are not written twice.

    Raises:
        UserError: as `infra.tracking.tracked` does.
    """
    if not is_tracked():
        yield
        return
    with tracked(work.kind, work.label, work.name, work.settings) as runs, watching(_Curves(work, runs)):
        yield


class _Curves(RunFollower):
    """Gives new entries of the metrics file to trackers."""

    def __init__(self, work: LongWork, runs: Sequence[Tracker]) -> None:
        super().__init__(work, lambda name, done, total, note="": None)
        self._runs = runs
        self._best_effort = BestEffort(f"The curves of run {work.name}")

    def _report_news(self) -> None:
        reports: defaultdict[str, list[Report]] = defaultdict(list)
        for entry in self._new_entries():
            reports[entry["split"]].append((entry["step"], entry["figures"]))
        for split, found in reports.items():
            for run in self._runs:
                run.log(split, found)
