"""Steps since the last entry of the curves: the figures of each, and their means for the entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

NEWEST = frozenset({"learning_rate", "skipped_steps"})
"""Figures whose last value goes into an entry; of all others, the mean."""

Steps = list[tuple[int, dict[str, float]]]


class StepWindow:
    """Figures of steps until an entry is made of them.

    Memory: one number per figure and step between two entries. `state` is part of a checkpoint, so that a run that was
    killed has the same entries as one that was not.
    """

    def __init__(self, state: Iterable[tuple[int, Mapping[str, float]]] = ()) -> None:
        self._steps: Steps = [(step, dict(figures)) for step, figures in state]

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Keep the figures of `step`."""
        self._steps.append((step, dict(figures)))

    def close(self) -> tuple[Steps, dict[str, float]]:
        """Return the steps since the last call and their means, and empty the window.

        Values that are not finite (a skipped step's loss, a recall with nothing to find) are left out of a mean, unless
        there are no others.
        """
        steps, self._steps = self._steps, []
        names = dict.fromkeys(name for _, figures in steps for name in figures)  # steps of two tasks have other figures
        values = {name: [figures[name] for _, figures in steps if name in figures] for name in names}
        return steps, {name: _summary(name, given) for name, given in values.items()}

    def state(self) -> Steps:
        """Return what a checkpoint keeps."""
        return [(step, dict(figures)) for step, figures in self._steps]


def _summary(name: str, values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    if name in NEWEST or not finite:
        return values[-1]
    return math.fsum(finite) / len(finite)
