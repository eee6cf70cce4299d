"""The steps since the last entry of the curves: each one's figures, and their means for the entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

NEWEST = frozenset({"learning_rate", "skipped_steps"})
"""Figures of which an entry tells the last value; of all others the mean."""

Steps = list[tuple[int, dict[str, float]]]


class StepWindow:
    """Keeps what steps told until an entry is made of it. Memory: a number for each figure of each step between two
    entries. `state` is part of a checkpoint, so that a run that is killed has the entries of one that was not.
    """

    def __init__(self, state: Iterable[tuple[int, Mapping[str, float]]] = ()) -> None:
        self._steps: Steps = [(step, dict(figures)) for step, figures in state]

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Keep the figures of `step`."""
        self._steps.append((step, dict(figures)))

    def close(self) -> tuple[Steps, dict[str, float]]:
        """The steps since the last call, and their means; the window is empty then.

        What is not finite (a skipped step's loss, a recall where there was nothing to find) is left out of a mean,
        unless there is nothing else.
        """
        steps, self._steps = self._steps, []
        names = steps[-1][1] if steps else {}
        return steps, {name: _told(name, [figures[name] for _, figures in steps if name in figures]) for name in names}

    def state(self) -> Steps:
        """What a checkpoint keeps."""
        return [(step, dict(figures)) for step, figures in self._steps]


def _told(name: str, values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    if name in NEWEST or not finite:
        return values[-1]
    return math.fsum(finite) / len(finite)
