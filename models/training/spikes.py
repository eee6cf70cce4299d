"""Steps that would harm the weights: a loss or gradient that is not finite, or a loss far above recent ones."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

WINDOW = 100
"""Number of steps that the median and the limit of skipped steps look back on."""
ENOUGH = 20
"""Number of losses needed for a median: the losses of the first steps fall fast."""


class SpikeGuard:
    """Rule that decides which steps of a task are skipped, and when there were too many.

    Its verdicts depend on the losses alone: ranks with the same losses decide alike, and a run resumed with `state`
    decides like one that never stopped.
    """

    def __init__(self, factor: float | None, max_skipped: int) -> None:
        """`factor`: largest allowed multiple of the running median, None: any; `max_skipped` in `WINDOW` steps of the
        task: one that does every twentieth step is judged by these, not by the steps between.
        """
        self._factor, self._max_skipped = factor, max_skipped
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self.skipped: list[int] = []
        """Skipped steps of the task, counted from 1 over the whole run."""
        self._judged = 0
        self._own_skipped: list[int] = []  # as `skipped`, counted over the task's own steps

    def objection(self, loss: float, norm: float) -> str | None:
        """Return why this step must not be taken, or None: it may be taken, and its loss is remembered."""
        self._judged += 1
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return "the loss or its gradient is not finite"
        if self._factor is not None and len(self._losses) >= ENOUGH:
            median = statistics.median(self._losses)
            if loss > self._factor * median:
                return (
                    f"the loss is over {self._factor:g} times the median of the last {len(self._losses)}, {median:.4g}"
                )
        # Only losses of steps that were taken: a spike must not raise the median that judges the next one.
        self._losses.append(loss)
        return None

    def skip(self, step: int, objection: str, figures: Mapping[str, float]) -> None:
        """Record that `step` (counted from 1), the last that was judged, was skipped.

        Raises:
            FloatingPointError: more than `max_skipped` of the last `WINDOW` steps were; the message names step and
            terms.
        """
        self.skipped.append(step)
        self._own_skipped.append(self._judged)
        recent = sum(one > self._judged - WINDOW for one in self._own_skipped)
        if recent <= self._max_skipped:
            return
        shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        seen = min(self._judged, WINDOW)
        raise FloatingPointError(
            f"step {step}: {objection} ({shown}). {recent} of the last {seen} steps were like this and skipped, "
            f"training.max_skipped is {self._max_skipped}. The last checkpoint is intact; lower "
            "training.learning_rate or change training.seed."
        )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {
            "steps": list(self.skipped),
            "own_steps": list(self._own_skipped),
            "judged": self._judged,
            "recent_losses": list(self._losses),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        self.skipped = [int(step) for step in state["steps"]]
        self._own_skipped = [int(step) for step in state["own_steps"]]
        self._judged = int(state["judged"])
        self._losses = deque(state["recent_losses"], maxlen=WINDOW)
