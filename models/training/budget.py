"""How far a run has come: its steps, or what it has spent of a budget, in CPU seconds or in arithmetic.

CPU seconds are those of the training process, all threads together: other work on the machine changes them little, so
that models which cost unlike amounts per step are compared at equal cost. They are counted on every worker and added
up, and a checkpoint holds their sum.

Model FLOPs, those that the objective needs by its own formula, are the same on every machine, so that a run with such a
budget can be repeated, on a GPU too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

Clock = Callable[[], float]


class CpuMeter:
    """CPU seconds of this process since the meter was made, without those of paused blocks, on top of `before`."""

    def __init__(self, before: float = 0.0, clock: Clock = time.process_time) -> None:
        self._clock = clock
        self._began = clock() - before

    def read(self) -> float:
        """Return the seconds so far."""
        return self._clock() - self._began

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time that the process spends in the block."""
        began = self._clock()
        yield
        self._began += self._clock() - began


def share_done(step: int, steps: int, *costs: tuple[float, float | None]) -> float:
    """Return the share of a run that is done, 0 to 1: of its steps or, where that is more, of a budget.

    Args:
        step: steps done, of `steps`.
        costs: pairs of what is spent and its budget; None: there is no such budget.
    """
    return min(1.0, max(step / steps, *(spent / budget for spent, budget in costs if budget is not None), 0.0))


def passed(milestones: Sequence[float], before: float, now: float) -> bool:
    """Return whether a milestone, a share of the run, lies after `before` and not after `now`."""
    return any(before < milestone <= now for milestone in milestones)
