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
    """Rule that decides which steps are skipped, and when there were too many.

    Its verdicts depend on the losses alone: ranks with the same losses decide alike, and a run resumed with `state`
    decides like one that never stopped.
    """

    def __init__(self, factor: float | None, max_skipped: int) -> None:
        """`factor`: largest allowed multiple of the running median, None: any; `max_skipped` in `WINDOW` steps."""
        self._factor, self._max_skipped = factor, max_skipped
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self.skipped: list[int] = []
        """Skipped steps of the whole run, counted from 1."""

    def objection(self, loss: float, norm: float) -> str | None:
        """Return why this step must not be taken, or None: it may be taken, and its loss is remembered."""
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
        """Record that `step` (counted from 1) was skipped.

        Raises:
            FloatingPointError: more than `max_skipped` of the last `WINDOW` steps were; the message names step and
            terms.
        """
        self.skipped.append(step)
        recent = sum(one > step - WINDOW for one in self.skipped)
        if recent <= self._max_skipped:
            return
        shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        raise FloatingPointError(
            f"step {step}: {objection} ({shown}). {recent} of the last {min(step, WINDOW)} steps were like this and "
            f"skipped, training.max_skipped is {self._max_skipped}. The last checkpoint is intact; lower "
            "training.learning_rate or change training.seed."
        )

    def state(self) -> dict[str, list[Any]]:
        """Return what a checkpoint keeps."""
        return {"steps": list(self.skipped), "recent_losses": list(self._losses)}

    def resume(self, state: Mapping[str, list[Any]]) -> None:
        """Continue from `state`."""
        self.skipped = [int(step) for step in state["steps"]]
        self._losses = deque(state["recent_losses"], maxlen=WINDOW)
