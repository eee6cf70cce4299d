"""Steps that would harm the weights: a loss or gradient that is not finite, or a loss far above its like."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

WINDOW = 100
"""Steps that the median and the limit of skipped steps look back on."""
ENOUGH = 20
"""Losses below which there is no median to compare with: the first steps' losses fall fast."""


class SpikeGuard:
    """Decides which steps are skipped, and when there were too many.

    Its verdicts are functions of the losses alone: ranks that see the same losses decide alike, and a run that resumes
    with `state` decides as one that never stopped.
    """

    def __init__(self, factor: float | None, max_skipped: int) -> None:
        """`factor`: largest multiple of the running median that passes, None: any; `max_skipped` in `WINDOW` steps."""
        self._factor, self._max_skipped = factor, max_skipped
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self.skipped: list[int] = []
        """The steps skipped so far, counted from 1, of the whole run."""

    def objection(self, loss: float, norm: float) -> str | None:
        """Why a step with this loss and gradient norm must not be taken; None: it may, and its loss is remembered."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return "the loss or its gradient is not finite"
        if self._factor is not None and len(self._losses) >= ENOUGH:
            median = statistics.median(self._losses)
            if loss > self._factor * median:
                return (
                    f"the loss is over {self._factor:g} times the median of the last {len(self._losses)}, {median:.4g}"
                )
        self._losses.append(loss)
        return None

    def skip(self, step: int, objection: str, figures: Mapping[str, float]) -> None:
        """Record that `step` (counted from 1) was skipped.

        Raises:
            FloatingPointError: more than `max_skipped` of the last `WINDOW` steps; the message names step and terms.
        """
        self.skipped.append(step)
        recent = sum(one > step - WINDOW for one in self.skipped)
        if recent <= self._max_skipped:
            return
        shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        raise FloatingPointError(
            f"step {step}: {objection} ({shown}). {recent} of the last {min(step, WINDOW)} steps were like that and "
            f"skipped, training.max_skipped is {self._max_skipped}. The last checkpoint is intact; lower "
            "training.learning_rate or change training.seed."
        )

    def state(self) -> dict[str, list[Any]]:
        """What a checkpoint keeps."""
        return {"steps": list(self.skipped), "recent_losses": list(self._losses)}

    def resume(self, state: Mapping[str, list[Any]]) -> None:
        """Go on from `state`."""
        self.skipped = [int(step) for step in state["steps"]]
        self._losses = deque(state["recent_losses"], maxlen=WINDOW)
